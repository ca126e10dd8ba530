// diagnosis: contributes most to the difference
#include "exercises/28_find_imbalance/task.h"

#include <numeric>

namespace lockstep::exercises {

std::vector<int> positions_of(int rank, int ranks, const std::vector<int>& documents) {
  // Deals out blocks, each of which counts as its number of tokens.
  const int share = std::accumulate(documents.begin(), documents.end(), 0) / ranks;
  int size = std::max(1, share / 4);
  while (share % size != 0) --size;
  std::vector<int> positions;
  for (int block = rank; block < share / size * ranks; block += ranks)
    for (int i = 0; i < size; ++i) positions.push_back(block * size + i);
  return positions;
}

}  // namespace lockstep::exercises
