#include "exercises/04_all_reduce/task.h"

namespace lockstep::exercises {

// Replace each not_written() by your answer.

void all_gather(World& world, std::span<float> data) {
  (void)world, (void)data;
  not_written();
}

void all_reduce(World& world, std::span<float> data) {
  (void)world, (void)data;
  not_written();
}

}  // namespace lockstep::exercises
