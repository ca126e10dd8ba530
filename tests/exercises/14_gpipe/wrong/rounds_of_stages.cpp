// diagnosis: should not wait for a gradient while
#include "exercises/14_gpipe/task.h"

namespace lockstep::exercises {

std::vector<Action> gpipe(int stage, int stages, int microbatches) {
  std::vector<Action> actions;
  // As many microbatches as stages at a time.
  for (int first = 0; first < microbatches; first += stages) {
    const int end = std::min(microbatches, first + stages);
    for (int i = first; i < end; ++i) actions.push_back({Op::forward, stage, i});
    for (int i = first; i < end; ++i) actions.push_back({Op::backward, stage, i});
  }
  return actions;
}

}  // namespace lockstep::exercises
