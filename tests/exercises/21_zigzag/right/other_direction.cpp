// Zigzag, with the outermost pair of chunks on the last rank.
#include "exercises/21_zigzag/task.h"

namespace lockstep::exercises {

std::vector<int> positions_of(int rank, int ranks, int length) {
  const int size = length / (2 * ranks), pair = ranks - 1 - rank;
  std::vector<int> positions;
  for (int i = 0; i < length; ++i)
    if (i / size == pair || i / size == 2 * ranks - 1 - pair) positions.push_back(i);
  return positions;
}

}  // namespace lockstep::exercises
