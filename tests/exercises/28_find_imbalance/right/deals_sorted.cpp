#include "exercises/28_find_imbalance/task.h"

#include <algorithm>
#include <utility>

// Deals the sorted tokens out in rounds: rank 0 gets at most the most expensive token's work more.

namespace lockstep::exercises {

std::vector<int> positions_of(int rank, int ranks, const std::vector<int>& documents) {
  std::vector<std::pair<int, int>> cost_and_position;
  for (const int length : documents)
    for (int i = 0; i < length; ++i)
      cost_and_position.emplace_back(-i, static_cast<int>(cost_and_position.size()));
  std::ranges::sort(cost_and_position);
  std::vector<int> mine;
  for (std::size_t i = static_cast<std::size_t>(rank); i < cost_and_position.size();
       i += static_cast<std::size_t>(ranks))
    mine.push_back(cost_and_position[i].second);
  return mine;
}

}  // namespace lockstep::exercises
