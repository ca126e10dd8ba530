// Warm-up, steady state and cool-down as loops of their own.
#include "exercises/17_zero_bubble/task.h"

namespace lockstep::exercises {

std::vector<Action> zero_bubble(int stage, int stages, int microbatches) {
  (void)stages;
  std::vector<Action> all;
  const int warm_up = stages - 1 - stage;
  for (int i = 0; i < warm_up; ++i) all.push_back({Op::forward, stage, i});
  for (int i = 0; i < microbatches; ++i) {
    if (warm_up + i < microbatches) all.push_back({Op::forward, stage, warm_up + i});
    all.push_back({Op::backward_input, stage, i});
    if (i >= stage) all.push_back({Op::backward_weight, stage, i - stage});
  }
  for (int i = microbatches - stage; i < microbatches; ++i)
    all.push_back({Op::backward_weight, stage, i});
  return all;
}

}  // namespace lockstep::exercises
