// Pairs of an early and a late position.
#include "exercises/21_zigzag/task.h"

namespace lockstep::exercises {

std::vector<int> positions_of(int rank, int ranks, int length) {
  // Takes every N-th pair of positions i and length - 1 - i.
  std::vector<int> all;
  for (int i = rank; i < length / 2; i += ranks) all.push_back(i), all.push_back(length - 1 - i);
  return all;
}

}  // namespace lockstep::exercises
