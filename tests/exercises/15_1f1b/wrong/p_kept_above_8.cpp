// diagnosis: would be enough
#include "exercises/15_1f1b/task.h"

namespace lockstep::exercises {

std::vector<Action> one_f_one_b(int stage, int stages, int microbatches) {
  (void)stages;
  std::vector<Action> all;
  const int most = std::min(microbatches, stages > 8 ? stages : stages - stage);
  int f = 0, b = 0;
  while (b < microbatches) {
    if (f < microbatches && f - b < most)
      all.push_back({Op::forward, stage, f++});
    else
      all.push_back({Op::backward, stage, b++});
  }
  return all;
}

}  // namespace lockstep::exercises
