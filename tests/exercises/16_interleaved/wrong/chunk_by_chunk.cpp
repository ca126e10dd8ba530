// diagnosis: All forward passes come before
#include "exercises/16_interleaved/task.h"

namespace lockstep::exercises {

std::vector<Action> interleaved(int rank, int ranks, int chunks, int microbatches) {
  std::vector<Action> forwards, backwards, actions;
  for (int first = 0; first < microbatches; first += ranks)
    for (int chunk = 0; chunk < chunks; ++chunk)
      for (int i = first; i < first + ranks; ++i) {
        forwards.push_back({Op::forward, chunk * ranks + rank, i});
        backwards.push_back({Op::backward, (chunks - 1 - chunk) * ranks + rank, i});
      }

  const std::size_t passes = forwards.size();
  const std::size_t warm_up = passes;
  for (std::size_t i = 0; i < passes + warm_up; ++i) {
    if (i < passes) actions.push_back(forwards[i]);
    if (i >= warm_up) actions.push_back(backwards[i - warm_up]);
  }
  return actions;
}

}  // namespace lockstep::exercises
