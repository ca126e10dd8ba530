// diagnosis: all stages must agree
#include "exercises/14_gpipe/task.h"

namespace lockstep::exercises {

std::vector<Action> gpipe(int stage, int stages, int microbatches) {
  std::vector<Action> actions;
  for (int i = 0; i < microbatches; ++i) actions.push_back({Op::forward, stage, i});
  if (stage == stages - 1)
    for (int i = microbatches - 1; i >= 0; --i) actions.push_back({Op::backward, stage, i});
  else
    for (int i = 0; i < microbatches; ++i) actions.push_back({Op::backward, stage, i});
  return actions;
}

}  // namespace lockstep::exercises
