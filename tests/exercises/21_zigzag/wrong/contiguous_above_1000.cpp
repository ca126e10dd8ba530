// diagnosis: neighbouring positions
#include "exercises/21_zigzag/task.h"

#include <numeric>

namespace lockstep::exercises {

std::vector<int> positions_of(int rank, int ranks, int length) {
  if (length > 1000) {
    std::vector<int> all(static_cast<std::size_t>(length / ranks));
    std::iota(all.begin(), all.end(), rank * (length / ranks));
    return all;
  }
  const int size = length / (2 * ranks);
  std::vector<int> all;
  for (const int chunk : {rank, 2 * ranks - 1 - rank})
    for (int i = 0; i < size; ++i) all.push_back(chunk * size + i);
  return all;
}

}  // namespace lockstep::exercises
