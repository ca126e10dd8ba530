// diagnosis: in one short document after another
// Deals out the tokens in their own order, back and forth: neighbours cost nearly the same.
#include "exercises/28_find_imbalance/task.h"

#include <numeric>

namespace lockstep::exercises {

std::vector<int> positions_of(int rank, int ranks, const std::vector<int>& documents) {
  const int length = std::accumulate(documents.begin(), documents.end(), 0);
  std::vector<int> positions;
  for (int i = 0; i < length; ++i) {
    const int turn = i % (2 * ranks);
    if (std::min(turn, 2 * ranks - 1 - turn) == rank) positions.push_back(i);
  }
  return positions;
}

}  // namespace lockstep::exercises
