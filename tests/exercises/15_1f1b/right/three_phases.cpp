// Warm-up, steady state and cool-down as loops of their own.
#include "exercises/15_1f1b/task.h"

namespace lockstep::exercises {

std::vector<Action> one_f_one_b(int stage, int stages, int microbatches) {
  (void)stages;
  const int warm_up = std::min(microbatches, stages - 1 - stage);
  std::vector<Action> all;
  for (int i = 0; i < warm_up; ++i) all.push_back({Op::forward, stage, i});
  for (int i = warm_up; i < microbatches; ++i) {
    all.push_back({Op::forward, stage, i});
    all.push_back({Op::backward, stage, i - warm_up});
  }
  for (int i = microbatches - warm_up; i < microbatches; ++i)
    all.push_back({Op::backward, stage, i});
  return all;
}

}  // namespace lockstep::exercises
