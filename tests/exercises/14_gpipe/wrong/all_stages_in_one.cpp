// diagnosis: runs only this stage
#include "exercises/14_gpipe/task.h"

namespace lockstep::exercises {

std::vector<Action> gpipe(int stage, int stages, int microbatches) {
  std::vector<Action> actions;
  for (int s = 0; s < stages; ++s)
    for (int i = 0; i < microbatches; ++i) actions.push_back({Op::forward, s, i});
  for (int s = stages - 1; s >= 0; --s)
    for (int i = 0; i < microbatches; ++i) actions.push_back({Op::backward, s, i});
  (void)stage;
  return actions;
}

}  // namespace lockstep::exercises
