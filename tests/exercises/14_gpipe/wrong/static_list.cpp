// diagnosis: Something remains from one call to the next
#include "exercises/14_gpipe/task.h"

namespace lockstep::exercises {

std::vector<Action> gpipe(int stage, int stages, int microbatches) {
  (void)stages;
  static std::vector<Action> all;
  for (int i = 0; i < microbatches; ++i) all.push_back({Op::forward, stage, i});
  for (int i = 0; i < microbatches; ++i) all.push_back({Op::backward, stage, i});
  return all;
}

}  // namespace lockstep::exercises
