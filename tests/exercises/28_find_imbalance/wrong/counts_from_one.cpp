// diagnosis: The positions are 0 to 15
#include "exercises/28_find_imbalance/task.h"

#include <numeric>

namespace lockstep::exercises {

std::vector<int> positions_of(int rank, int ranks, const std::vector<int>& documents) {
  const int length = std::accumulate(documents.begin(), documents.end(), 0);
  std::vector<int> positions;
  for (int i = rank; i < length; i += ranks) positions.push_back(i + 1);
  return positions;
}

}  // namespace lockstep::exercises
