// diagnosis: contributes most to the difference
#include "exercises/28_find_imbalance/task.h"

#include <numeric>

namespace lockstep::exercises {

std::vector<int> positions_of(int rank, int ranks, const std::vector<int>& documents) {
  // Zigzag in each document, all ranks' chunks of a document before the next document; then each
  // rank takes its part of this order, which cuts documents anywhere.
  std::vector<int> order;
  int begin = 0;
  for (const int length : documents) {
    for (int r = 0; r < ranks; ++r)
      for (const int chunk : {r, 2 * ranks - 1 - r})
        for (int i = chunk * length / (2 * ranks); i < (chunk + 1) * length / (2 * ranks); ++i)
          order.push_back(begin + i);
    begin += length;
  }
  const auto mine = chunk(std::span{order}, rank, ranks);
  return {mine.begin(), mine.end()};
}

}  // namespace lockstep::exercises
