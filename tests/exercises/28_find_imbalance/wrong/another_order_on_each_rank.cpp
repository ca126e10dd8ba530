// diagnosis: all calls must find the same division
#include "exercises/28_find_imbalance/task.h"

#include <numeric>
#include <random>

namespace lockstep::exercises {

std::vector<int> positions_of(int rank, int ranks, const std::vector<int>& documents) {
  // A random order would be nearly balanced if all ranks used the same order.
  std::vector<int> order(
      static_cast<std::size_t>(std::accumulate(documents.begin(), documents.end(), 0)));
  std::iota(order.begin(), order.end(), 0);
  std::mt19937 random{static_cast<std::uint32_t>(rank)};
  std::ranges::shuffle(order, random);
  const auto mine = chunk(std::span{order}, rank, ranks);
  return {mine.begin(), mine.end()};
}

}  // namespace lockstep::exercises
