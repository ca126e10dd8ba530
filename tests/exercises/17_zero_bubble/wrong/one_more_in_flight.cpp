// diagnosis: before its first I
#include "exercises/17_zero_bubble/task.h"

namespace lockstep::exercises {

std::vector<Action> zero_bubble(int stage, int stages, int microbatches) {
  std::vector<Action> actions;
  int forwards = 0, inputs = 0, weights = 0;
  // F and I run in the order of 1F1B, with at most p - s microbatches between the two. The memory
  // that this leaves unused, s microbatches, is for deferred W's: the later the stage, the sooner
  // it has run its last I, and the more W's it needs to fill the time after it.
  while (inputs < microbatches) {
    if (forwards < microbatches && forwards - inputs < stages - stage + 1) {
      actions.push_back({Op::forward, stage, forwards++});
    } else {
      actions.push_back({Op::backward_input, stage, inputs++});
      if (inputs - weights > stage) actions.push_back({Op::backward_weight, stage, weights++});
    }
  }
  while (weights < microbatches) actions.push_back({Op::backward_weight, stage, weights++});
  return actions;
}

}  // namespace lockstep::exercises
