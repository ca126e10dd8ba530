// Zigzag in each document. The remaining tokens, its last ones, are dealt out back and forth, the
// most expensive first.
#include "exercises/28_find_imbalance/task.h"

#include <numeric>

namespace lockstep::exercises {

std::vector<int> positions_of(int rank, int ranks, const std::vector<int>& documents) {
  struct Token {
    int position, keys;
  };
  std::vector<Token> rest;
  std::vector<int> positions;
  int begin = 0;
  for (const int length : documents) {
    const int size = length / (2 * ranks);
    for (int i = 0; i < length; ++i) {
      const int chunk = size > 0 ? i / size : 2 * ranks;
      if (chunk >= 2 * ranks)
        rest.push_back({begin + i, i + 1});
      else if (std::min(chunk, 2 * ranks - 1 - chunk) == rank)
        positions.push_back(begin + i);
    }
    begin += length;
  }
  std::ranges::stable_sort(rest, std::ranges::greater{}, &Token::keys);
  for (std::size_t i = 0; i < rest.size(); ++i) {
    const int turn = static_cast<int>(i) % (2 * ranks);
    if (std::min(turn, 2 * ranks - 1 - turn) == rank) positions.push_back(rest[i].position);
  }
  return positions;
}

}  // namespace lockstep::exercises
