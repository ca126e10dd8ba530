#include "exercises/14_gpipe/task.h"

namespace lockstep::exercises {

std::vector<Action> gpipe(int stage, int stages, int microbatches) {
  std::vector<Action> actions;
  int forwards = 0, backwards = 0;
  while (backwards < microbatches) {
    if (forwards < microbatches && forwards - backwards < stages - stage)
      actions.push_back({Op::forward, stage, forwards++});
    else
      actions.push_back({Op::backward, stage, backwards++});
  }
  return actions;
}

}  // namespace lockstep::exercises
