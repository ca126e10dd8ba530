// diagnosis: the rest needs a rank
#include "exercises/28_find_imbalance/task.h"

#include <numeric>

namespace lockstep::exercises {

std::vector<int> positions_of(int rank, int ranks, const std::vector<int>& documents) {
  // Zigzag in each document.
  std::vector<int> positions;
  int begin = 0;
  for (const int length : documents) {
    const int size = length / (2 * ranks);
    for (const int chunk : {rank, 2 * ranks - 1 - rank})
      for (int i = 0; i < size; ++i) positions.push_back(begin + chunk * size + i);
    begin += length;
  }
  return positions;
}

}  // namespace lockstep::exercises
