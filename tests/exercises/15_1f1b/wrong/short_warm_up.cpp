// diagnosis: enough forward passes to last until
#include "exercises/15_1f1b/task.h"

namespace lockstep::exercises {

std::vector<Action> one_f_one_b(int stage, int stages, int microbatches) {
  std::vector<Action> actions;
  int forwards = 0, backwards = 0;
  const int in_flight = std::min(microbatches, std::max(1, stages - 1 - stage));
  while (backwards < microbatches) {
    if (forwards < microbatches && forwards - backwards < in_flight)
      actions.push_back({Op::forward, stage, forwards++});
    else
      actions.push_back({Op::backward, stage, backwards++});
  }
  return actions;
}

}  // namespace lockstep::exercises
