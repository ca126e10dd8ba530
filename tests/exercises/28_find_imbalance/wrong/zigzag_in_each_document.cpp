// diagnosis: in one short document after another
// Zigzag in each document. The remaining tokens, its last ones, are dealt out in turns, whatever
// they cost.
#include "exercises/28_find_imbalance/task.h"

#include <numeric>

namespace lockstep::exercises {

std::vector<int> positions_of(int rank, int ranks, const std::vector<int>& documents) {
  std::vector<int> positions;
  int begin = 0, dealt = 0;
  for (const int length : documents) {
    const int size = length / (2 * ranks);
    for (int i = 0; i < length; ++i) {
      const int chunk = size > 0 ? i / size : 2 * ranks;
      const int owner =
          chunk < 2 * ranks ? std::min(chunk, 2 * ranks - 1 - chunk) : dealt++ % ranks;
      if (owner == rank) positions.push_back(begin + i);
    }
    begin += length;
  }
  return positions;
}

}  // namespace lockstep::exercises
