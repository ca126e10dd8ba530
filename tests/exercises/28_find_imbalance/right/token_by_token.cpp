// The rank with the least work gets the most expensive token, in rounds.
#include "exercises/28_find_imbalance/task.h"

#include <numeric>
#include <utility>

namespace lockstep::exercises {

std::vector<int> positions_of(int rank, int ranks, const std::vector<int>& documents) {
  std::vector<int> keys;
  for (const int length : documents)
    for (int i = 0; i < length; ++i) keys.push_back(i + 1);
  const auto keys_of = [&](int position) { return keys[static_cast<std::size_t>(position)]; };
  std::vector<int> tokens(keys.size());
  std::iota(tokens.begin(), tokens.end(), 0);
  std::ranges::sort(tokens, [&](int a, int b) {
    return std::pair{keys_of(b), a} < std::pair{keys_of(a), b};
  });
  std::vector<std::pair<std::int64_t, int>> work;  // so far, and the rank
  for (int r = 0; r < ranks; ++r) work.emplace_back(0, r);
  std::vector<int> positions;
  for (std::size_t i = 0; i < tokens.size(); ++i) {
    auto& [pairs, r] = work[i % work.size()];
    if (i % work.size() == 0) std::ranges::sort(work);
    pairs += keys_of(tokens[i]);
    if (r == rank) positions.push_back(tokens[i]);
  }
  return positions;
}

}  // namespace lockstep::exercises
