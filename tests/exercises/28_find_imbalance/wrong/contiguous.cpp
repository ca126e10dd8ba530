// diagnosis: Each rank has neighbouring positions
#include "exercises/28_find_imbalance/task.h"

#include <numeric>

namespace lockstep::exercises {

std::vector<int> positions_of(int rank, int ranks, const std::vector<int>& documents) {
  const int size = std::accumulate(documents.begin(), documents.end(), 0) / ranks;
  std::vector<int> positions(static_cast<std::size_t>(size));
  std::iota(positions.begin(), positions.end(), rank * size);
  return positions;
}

}  // namespace lockstep::exercises
