#include "exercises/21_zigzag/task.h"

namespace lockstep::exercises {

std::vector<int> positions_of(int rank, int ranks, int length) {
  // 2 N chunks: a rank has one from the beginning, counted from the first chunk on, and one from
  // the end, counted back from the last. The work that it saves on the early chunk, it spends on
  // the late one.
  const int size = length / (2 * ranks);
  std::vector<int> positions;
  for (const int chunk : {rank, 2 * ranks - 1 - rank})
    for (int i = 0; i < size; ++i) positions.push_back(chunk * size + i);
  return positions;
}

}  // namespace lockstep::exercises
