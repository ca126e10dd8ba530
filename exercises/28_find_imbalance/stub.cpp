// find the bug
//
// Zigzag, as in exercise 21. `./lockstep check find_imbalance` shows its effect on documents.
#include "exercises/28_find_imbalance/task.h"

#include <numeric>

namespace lockstep::exercises {

std::vector<int> positions_of(int rank, int ranks, const std::vector<int>& documents) {
  // 2 N chunks: one from the beginning of the sequence, and one from its end.
  const int length = std::accumulate(documents.begin(), documents.end(), 0);
  const int size = length / (2 * ranks);
  std::vector<int> positions;
  for (const int chunk : {rank, 2 * ranks - 1 - rank})
    for (int i = 0; i < size; ++i) positions.push_back(chunk * size + i);
  return positions;
}

}  // namespace lockstep::exercises
