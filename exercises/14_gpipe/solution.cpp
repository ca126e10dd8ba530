#include "exercises/14_gpipe/task.h"

namespace lockstep::exercises {

std::vector<Action> gpipe(int stage, int /*stages*/, int microbatches) {
  // Every stage has the same list. The staircase comes from the waiting: each stage gets its first
  // activations one forward pass later than the stage before it.
  std::vector<Action> actions;
  for (int i = 0; i < microbatches; ++i) actions.push_back({Op::forward, stage, i});
  for (int i = 0; i < microbatches; ++i) actions.push_back({Op::backward, stage, i});
  return actions;
}

}  // namespace lockstep::exercises
