// diagnosis: W needs what its
#include "exercises/17_zero_bubble/task.h"

namespace lockstep::exercises {

std::vector<Action> zero_bubble(int stage, int stages, int microbatches) {
  std::vector<Action> actions;
  int forwards = 0, inputs = 0;
  while (inputs < microbatches) {
    if (forwards < microbatches && forwards - inputs < stages - stage) {
      actions.push_back({Op::forward, stage, forwards++});
    } else {
      actions.push_back({Op::backward_weight, stage, inputs});
      actions.push_back({Op::backward_input, stage, inputs++});
    }
  }
  return actions;
}

}  // namespace lockstep::exercises
