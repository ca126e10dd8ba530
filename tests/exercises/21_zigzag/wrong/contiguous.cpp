// diagnosis: Each rank has neighbouring positions
#include "exercises/21_zigzag/task.h"

namespace lockstep::exercises {

std::vector<int> positions_of(int rank, int ranks, int length) {
  const int size = length / ranks;
  std::vector<int> positions;
  for (int i = 0; i < size; ++i) positions.push_back(rank * size + i);
  return positions;
}

}  // namespace lockstep::exercises
