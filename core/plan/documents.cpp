#include "core/plan/documents.h"

#include <algorithm>
#include <numeric>

namespace lockstep {

std::int64_t attention_pairs(const Documents& documents, const std::vector<Positions>& queries) {
  std::int64_t pairs = 0;
  int begin = 0;
  for (const int length : documents) {
    for (const Positions& each : queries) {
      const std::int64_t first = std::max(each.begin, begin) - begin;
      const std::int64_t last = std::min(each.end, begin + length) - begin;
      if (first < last) pairs += (first + 1 + last) * (last - first) / 2;
    }
    begin += length;
  }
  return pairs;
}

namespace {

struct Block {
  Positions positions;
  std::int64_t pairs = 0;
};

/// Returns the blocks of a sequence, the most expensive first. Equal ones stay in order.
std::vector<Block> sorted_blocks(const Documents& documents, int n) {
  const int sequence = std::accumulate(documents.begin(), documents.end(), 0);
  const int size = balanced_block(sequence, n);
  std::vector<Block> blocks;
  for (int begin = 0; begin < sequence; begin += size) {
    const Positions positions{begin, begin + size};
    blocks.push_back({positions, attention_pairs(documents, {positions})});
  }
  std::ranges::stable_sort(blocks, std::greater{}, &Block::pairs);
  return blocks;
}

}  // namespace

int balanced_block(int sequence, int n) {
  constexpr int least_blocks = 32;
  const int share = sequence / n;
  int size = std::max(1, share / least_blocks);
  while (share % size != 0) --size;
  return size;
}

std::vector<std::vector<Positions>> balanced_positions(const Documents& documents, int n) {
  const std::vector<Block> blocks = sorted_blocks(documents, n);
  const auto count = static_cast<std::size_t>(n);
  std::vector<std::vector<Positions>> of_rank(count);
  std::vector<std::int64_t> work(count);
  std::vector<std::size_t> ranks(count);
  std::iota(ranks.begin(), ranks.end(), std::size_t{0});
  for (std::size_t first = 0; first + count <= blocks.size(); first += count) {
    std::ranges::stable_sort(ranks, {}, [&](std::size_t rank) { return work[rank]; });
    for (std::size_t i = 0; i < count; ++i) {
      const auto& [positions, pairs] = blocks[first + i];
      of_rank[ranks[i]].push_back(positions);
      work[ranks[i]] += pairs;
    }
  }
  for (std::vector<Positions>& own : of_rank) std::ranges::sort(own, {}, &Positions::begin);
  return of_rank;
}

double balance_bound(const Documents& documents, int n) {
  const std::vector<Block> blocks = sorted_blocks(documents, n);
  const auto count = static_cast<std::size_t>(n);
  std::int64_t widest = 0;
  for (std::size_t first = 0; first + count <= blocks.size(); first += count)
    widest = std::max(widest, blocks[first].pairs - blocks[first + count - 1].pairs);
  return static_cast<double>(widest) * (n - 1) / n;
}

}  // namespace lockstep
