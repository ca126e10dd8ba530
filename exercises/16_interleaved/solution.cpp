#include "exercises/16_interleaved/task.h"

namespace lockstep::exercises {

std::vector<Action> interleaved(int rank, int ranks, int chunks, int microbatches) {
  // Microbatches advance in groups of p. When rank 0 has run a group through one chunk, the first
  // of the group has been around all ranks, and is back for the next chunk.
  std::vector<Action> forwards, backwards, actions;
  for (int first = 0; first < microbatches; first += ranks)
    for (int chunk = 0; chunk < chunks; ++chunk)
      for (int i = first; i < first + ranks; ++i) {
        forwards.push_back({Op::forward, chunk * ranks + rank, i});
        backwards.push_back({Op::backward, (chunks - 1 - chunk) * ranks + rank, i});
      }

  // The first backward pass follows when the first group has been through all chunks but the last.
  // Compared with the next rank, each rank before the last begins one forward pass earlier and gets
  // its first gradient one backward pass later; it runs one more forward pass for each of the two.
  const std::size_t passes = forwards.size();
  const std::size_t warm_up =
      std::min(passes, static_cast<std::size_t>((chunks - 1) * ranks + 2 * (ranks - 1 - rank)));
  for (std::size_t i = 0; i < passes + warm_up; ++i) {
    if (i < passes) actions.push_back(forwards[i]);
    if (i >= warm_up) actions.push_back(backwards[i - warm_up]);
  }
  return actions;
}

}  // namespace lockstep::exercises
