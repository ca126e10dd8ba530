// Deals out sorted blocks, back and forth.
#include "exercises/28_find_imbalance/task.h"

#include <numeric>

namespace lockstep::exercises {

std::vector<int> positions_of(int rank, int ranks, const std::vector<int>& documents) {
  std::vector<std::int64_t> keys;
  for (const int length : documents)
    for (int i = 0; i < length; ++i) keys.push_back(i + 1);
  const int share = static_cast<int>(keys.size()) / ranks;
  int size = std::max(1, share / 32);
  while (share % size != 0) --size;
  const auto work_of = [&](int begin) {
    return std::accumulate(keys.begin() + begin, keys.begin() + begin + size, std::int64_t{0});
  };
  std::vector<int> blocks, positions;
  for (int begin = 0; begin < share * ranks; begin += size) blocks.push_back(begin);
  std::ranges::stable_sort(blocks, std::ranges::greater{}, work_of);
  for (int i = 0; i < static_cast<int>(blocks.size()); ++i) {
    const int turn = i % (2 * ranks);
    if (std::min(turn, 2 * ranks - 1 - turn) != rank) continue;
    for (int j = 0; j < size; ++j) positions.push_back(blocks[static_cast<std::size_t>(i)] + j);
  }
  return positions;
}

}  // namespace lockstep::exercises
