#include "exercises/17_zero_bubble/task.h"

namespace lockstep::exercises {

std::vector<Action> zero_bubble(int stage, int stages, int microbatches) {
  std::vector<Action> actions;
  std::vector<Action> waiting;
  const auto run_newest = [&] {
    actions.push_back(waiting.back());
    waiting.pop_back();
  };
  int forwards = 0, inputs = 0;
  while (inputs < microbatches) {
    if (forwards < microbatches && forwards - inputs < stages - stage) {
      actions.push_back({Op::forward, stage, forwards++});
    } else {
      actions.push_back({Op::backward_input, stage, inputs++});
      waiting.push_back({Op::backward_weight, stage, inputs - 1});
      if (static_cast<int>(waiting.size()) > stage) run_newest();
    }
  }
  while (!waiting.empty()) run_newest();
  return actions;
}

}  // namespace lockstep::exercises
