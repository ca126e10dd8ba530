// diagnosis: nearly the same number of pairs, but not the same number of tokens
#include "exercises/28_find_imbalance/task.h"

#include <numeric>

namespace lockstep::exercises {

std::vector<int> positions_of(int rank, int ranks, const std::vector<int>& documents) {
  // Gives each token, the most expensive first, to the rank with the least work.
  std::vector<int> keys;
  for (const int length : documents)
    for (int i = 0; i < length; ++i) keys.push_back(i + 1);
  const auto keys_of = [&](int position) { return keys[static_cast<std::size_t>(position)]; };
  std::vector<int> tokens(keys.size()), positions;
  std::iota(tokens.begin(), tokens.end(), 0);
  std::ranges::stable_sort(tokens, std::ranges::greater{}, keys_of);
  std::vector<std::int64_t> work(static_cast<std::size_t>(ranks));
  for (const int token : tokens) {
    const auto least = std::ranges::min_element(work);
    *least += keys_of(token);
    if (least - work.begin() == rank) positions.push_back(token);
  }
  return positions;
}

}  // namespace lockstep::exercises
