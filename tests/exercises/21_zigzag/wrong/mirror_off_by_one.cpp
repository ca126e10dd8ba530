// diagnosis: the last one is chunk 2 N - 1
#include "exercises/21_zigzag/task.h"

namespace lockstep::exercises {

std::vector<int> positions_of(int rank, int ranks, int length) {
  const int size = length / (2 * ranks);
  std::vector<int> positions;
  for (const int chunk : {rank, 2 * ranks - rank})
    for (int i = 0; i < size; ++i) positions.push_back(chunk * size + i);
  return positions;
}

}  // namespace lockstep::exercises
