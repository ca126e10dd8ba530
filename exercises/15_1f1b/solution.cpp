#include "exercises/15_1f1b/task.h"

namespace lockstep::exercises {

std::vector<Action> one_f_one_b(int stage, int stages, int microbatches) {
  std::vector<Action> actions;
  int forwards = 0, backwards = 0;
  // Until its first gradient can be back, a stage runs one forward pass for itself and one for each
  // stage after it. From then on, it finishes one microbatch for each one that it starts.
  const int in_flight = std::min(microbatches, stages - stage);
  while (backwards < microbatches) {
    if (forwards < microbatches && forwards - backwards < in_flight)
      actions.push_back({Op::forward, stage, forwards++});
    else
      actions.push_back({Op::backward, stage, backwards++});
  }
  return actions;
}

}  // namespace lockstep::exercises
