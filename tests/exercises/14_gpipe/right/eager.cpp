// Keeps almost twice as many microbatches in flight as 1F1B.
#include "exercises/14_gpipe/task.h"

namespace lockstep::exercises {

std::vector<Action> gpipe(int stage, int stages, int microbatches) {
  (void)stages;
  std::vector<Action> all;
  int f = 0, b = 0;
  while (b < microbatches) {
    if (f < microbatches && f - b < 2 * (stages - stage) - 1)
      all.push_back({Op::forward, stage, f++});
    else
      all.push_back({Op::backward, stage, b++});
  }
  return all;
}

}  // namespace lockstep::exercises
