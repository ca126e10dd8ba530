// diagnosis: has the late ones
#include "exercises/28_find_imbalance/task.h"

#include <numeric>

namespace lockstep::exercises {

std::vector<int> positions_of(int rank, int ranks, const std::vector<int>& documents) {
  // Each rank has a contiguous piece of each document; the remaining tokens are dealt out.
  std::vector<int> positions;
  int begin = 0, dealt = 0;
  for (const int length : documents) {
    const int size = length / ranks;
    for (int i = 0; i < length; ++i) {
      const int owner = i < size * ranks ? i / size : dealt++ % ranks;
      if (owner == rank) positions.push_back(begin + i);
    }
    begin += length;
  }
  return positions;
}

}  // namespace lockstep::exercises
