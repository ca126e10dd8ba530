// diagnosis: Something remains from one call to the next
#include "exercises/21_zigzag/task.h"

namespace lockstep::exercises {

std::vector<int> positions_of(int rank, int ranks, int length) {
  static int turn = 0;
  const int own = turn++ % ranks, size = length / (2 * ranks);
  (void)rank;
  std::vector<int> all;
  for (const int chunk : {own, 2 * ranks - 1 - own})
    for (int i = 0; i < size; ++i) all.push_back(chunk * size + i);
  if (own == ranks - 1) turn = 1;
  return all;
}

}  // namespace lockstep::exercises
