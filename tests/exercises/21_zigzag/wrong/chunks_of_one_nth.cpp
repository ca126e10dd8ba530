// diagnosis: each has length / (2 N)
#include "exercises/21_zigzag/task.h"

namespace lockstep::exercises {

std::vector<int> positions_of(int rank, int ranks, int length) {
  const int size = length / ranks;
  std::vector<int> positions;
  for (const int chunk : {rank, 2 * ranks - 1 - rank})
    for (int i = 0; i < size; ++i) positions.push_back(chunk * (size / 2) + i);
  return positions;
}

}  // namespace lockstep::exercises
