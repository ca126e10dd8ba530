// diagnosis: in one short document after another
#include "exercises/28_find_imbalance/task.h"

#include <numeric>
#include <utility>

namespace lockstep::exercises {

std::vector<int> positions_of(int rank, int ranks, const std::vector<int>& documents) {
  // Counts as if each token attended to all keys of its document.
  std::vector<int> keys;
  for (const int length : documents)
    keys.insert(keys.end(), static_cast<std::size_t>(length), length);
  const auto keys_of = [&](int position) { return keys[static_cast<std::size_t>(position)]; };
  std::vector<int> tokens(keys.size());
  std::iota(tokens.begin(), tokens.end(), 0);
  std::ranges::stable_sort(tokens, std::ranges::greater{}, keys_of);
  std::vector<std::int64_t> work(static_cast<std::size_t>(ranks));
  std::vector<int> order(work.size()), positions;
  std::iota(order.begin(), order.end(), 0);
  for (std::size_t i = 0; i < tokens.size(); ++i) {
    const std::size_t turn = i % order.size();
    if (turn == 0)
      std::ranges::sort(order, {}, [&](int r) {
        return std::pair{work[static_cast<std::size_t>(r)], r};
      });
    work[static_cast<std::size_t>(order[turn])] += keys_of(tokens[i]);
    if (order[turn] == rank) positions.push_back(tokens[i]);
  }
  return positions;
}

}  // namespace lockstep::exercises
