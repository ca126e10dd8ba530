// Gives each token, the most expensive first, to the rank with the least work that has room.
#include "exercises/28_find_imbalance/task.h"

#include <numeric>

namespace lockstep::exercises {

std::vector<int> positions_of(int rank, int ranks, const std::vector<int>& documents) {
  std::vector<int> keys;
  for (const int length : documents)
    for (int i = 0; i < length; ++i) keys.push_back(i + 1);
  const auto keys_of = [&](int position) { return keys[static_cast<std::size_t>(position)]; };
  std::vector<int> tokens(keys.size());
  std::iota(tokens.begin(), tokens.end(), 0);
  std::ranges::stable_sort(tokens, std::ranges::greater{}, keys_of);
  std::vector<std::vector<int>> positions(static_cast<std::size_t>(ranks));
  std::vector<std::int64_t> work(positions.size());
  for (const int token : tokens) {
    std::size_t to = work.size();
    for (std::size_t r = 0; r < work.size(); ++r)
      if (positions[r].size() < tokens.size() / work.size() &&
          (to == work.size() || work[r] < work[to]))
        to = r;
    work[to] += keys_of(token);
    positions[to].push_back(token);
  }
  return positions[static_cast<std::size_t>(rank)];
}

}  // namespace lockstep::exercises
