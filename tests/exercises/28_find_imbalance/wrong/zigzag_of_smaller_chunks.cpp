// diagnosis: If the sequence were one document
#include "exercises/28_find_imbalance/task.h"

#include <numeric>

namespace lockstep::exercises {

std::vector<int> positions_of(int rank, int ranks, const std::vector<int>& documents) {
  // Two early and two late chunks per rank.
  const int length = std::accumulate(documents.begin(), documents.end(), 0);
  std::vector<int> positions;
  for (int i = 0; i < length; ++i) {
    const int chunk = i * 4 * ranks / length;
    const int in_half = chunk % (2 * ranks);
    if (std::min(in_half, 2 * ranks - 1 - in_half) == rank) positions.push_back(i);
  }
  return positions;
}

}  // namespace lockstep::exercises
