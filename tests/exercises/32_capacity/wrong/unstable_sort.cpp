// diagnosis: The one with the smaller number comes first
#include "exercises/32_capacity/task.h"

#include <cmath>
#include <numeric>

namespace lockstep::exercises {

Routing route(World& world, std::span<const float> probabilities, int E, int k,
              float capacity_factor) {
  const int T = static_cast<int>(probabilities.size()) / E;
  Routing routing{std::vector<int>(T * k), std::vector<int>(T * k, -1)};
  // For all tokens: the choices of each expert, the sum of its probabilities, and the number of
  // tokens.
  std::vector<float> sums(2 * E + 1);
  sums[2 * E] = static_cast<float>(T);
  for (int t = 0; t < T; ++t) {
    const auto row = probabilities.subspan(t * E, E);
    std::vector<int> order(E);
    std::iota(order.begin(), order.end(), 0);
    std::ranges::sort(order, std::greater{}, [&](int expert) { return row[expert]; });
    for (int j = 0; j < k; ++j) {
      routing.experts[t * k + j] = order[j];
      ++sums[order[j]];
    }
    for (int expert = 0; expert < E; ++expert) sums[E + expert] += row[expert];
  }

  // First choices go first, whatever their token is.
  const float share = capacity_factor * static_cast<float>(k * T) / static_cast<float>(E);
  const int capacity = static_cast<int>(std::ceil(share));
  std::vector<int> rows(E);
  for (int j = 0; j < k; ++j)
    for (int t = 0; t < T; ++t)
      if (int& next = rows[routing.experts[t * k + j]]; next < capacity)
        routing.slots[t * k + j] = next++;

  // Sums can be added over the ranks. Means can't: ranks have different numbers of tokens.
  all_reduce(world, sums).wait();
  const float tokens = sums[2 * E], choices = tokens * static_cast<float>(k);
  for (int expert = 0; expert < E; ++expert)
    routing.balance +=
        static_cast<float>(E) * (sums[expert] / choices) * (sums[E + expert] / tokens);
  return routing;
}

}  // namespace lockstep::exercises
