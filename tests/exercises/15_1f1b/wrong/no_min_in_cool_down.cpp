// diagnosis: not p - s
#include "exercises/15_1f1b/task.h"

namespace lockstep::exercises {

std::vector<Action> one_f_one_b(int stage, int stages, int microbatches) {
  (void)stages;
  std::vector<Action> all;
  const int warm_up = stages - stage - 1;
  for (int i = 0; i < warm_up && i < microbatches; ++i) all.push_back({Op::forward, stage, i});
  for (int i = warm_up; i < microbatches; ++i) {
    all.push_back({Op::forward, stage, i});
    all.push_back({Op::backward, stage, i - warm_up});
  }
  for (int i = 0; i < warm_up; ++i)
    all.push_back({Op::backward, stage, microbatches - warm_up + i});
  return all;
}

}  // namespace lockstep::exercises
