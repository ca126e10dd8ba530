#include "exercises/28_find_imbalance/task.h"

#include <numeric>

namespace lockstep::exercises {

std::vector<int> positions_of(int rank, int ranks, const std::vector<int>& documents) {
  std::vector<std::int64_t> keys;  // by position
  for (const int length : documents)
    for (int place = 0; place < length; ++place) keys.push_back(place + 1);
  const auto pairs = std::accumulate(keys.begin(), keys.end(), std::int64_t{0});

  // Blocks of neighbouring tokens, as large as allowed: a block has at most 5 % of the mean's
  // pairs, unless it is a single token, and all ranks get the same number of blocks.
  const auto share = static_cast<std::int64_t>(keys.size()) / ranks;
  std::int64_t size = std::max<std::int64_t>(1, pairs / (20 * ranks * std::ranges::max(documents)));
  while (share % size != 0) --size;
  struct Block {
    int begin;
    std::int64_t pairs;
  };
  std::vector<Block> blocks;
  for (auto at = keys.begin(); at != keys.end(); at += size)
    blocks.push_back(
        {static_cast<int>(at - keys.begin()), std::accumulate(at, at + size, std::int64_t{0})});
  std::ranges::stable_sort(blocks, std::ranges::greater{}, &Block::pairs);

  // Deal out the blocks in rounds, one to each rank; the rank with the least work so far gets the
  // most expensive block of the round. Then no rank is ever more than d ahead of another, where d
  // is the largest difference between two blocks of one round: of two ranks, the one ahead gets the
  // cheaper block. It was ahead by 0 to d and loses 0 to d, so it ends at most d ahead or d behind.
  // Since the blocks are sorted, d is less than the work of the most expensive block.
  std::vector<std::int64_t> work(static_cast<std::size_t>(ranks));
  std::vector<std::size_t> order(work.size());
  std::iota(order.begin(), order.end(), 0U);
  std::vector<int> positions;
  for (auto block = blocks.begin(); block != blocks.end();) {
    std::ranges::stable_sort(order, {}, [&](std::size_t r) { return work[r]; });
    for (const std::size_t r : order) {
      work[r] += block->pairs;
      if (static_cast<int>(r) == rank)
        for (int i = 0; i < size; ++i) positions.push_back(block->begin + i);
      ++block;
    }
  }
  return positions;
}

}  // namespace lockstep::exercises
