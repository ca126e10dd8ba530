#include "exercises/08_zero1/task.h"

namespace lockstep::exercises {

// Replace each not_written() by your answer.

ModelStates allocate_states(World& world, std::size_t n) {
  (void)world, (void)n;
  not_written();
}

void step(World& world, ModelStates& states) {
  (void)world, (void)states;
  not_written();
}

}  // namespace lockstep::exercises
