// diagnosis: in one short document after another
#include "exercises/28_find_imbalance/task.h"

#include <numeric>

namespace lockstep::exercises {

// Position i and position T - 1 - i together cost the same, if the sequence is one document.
std::vector<int> positions_of(int rank, int ranks, const std::vector<int>& documents) {
  const int length = std::accumulate(documents.begin(), documents.end(), 0);
  std::vector<int> positions;
  for (int i = 0; i < length; ++i)
    if (std::min(i, length - 1 - i) % ranks == rank) positions.push_back(i);
  return positions;
}

}  // namespace lockstep::exercises
