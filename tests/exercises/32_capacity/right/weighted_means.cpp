#include <cmath>
#include <numeric>

#include "exercises/32_capacity/task.h"

namespace lockstep::exercises {

// Means of each rank, weighted with its share of all tokens.
Routing route(World& world, std::span<const float> probabilities, int E, int k,
              float capacity_factor) {
  const int T = static_cast<int>(probabilities.size()) / E;
  Routing routing;
  std::vector<float> f(E), P(E);
  for (int t = 0; t < T; ++t) {
    std::vector<int> order(E);
    std::iota(order.begin(), order.end(), 0);
    std::sort(order.begin(), order.end(), [&](int a, int b) {
      const float pa = probabilities[t * E + a], pb = probabilities[t * E + b];
      return pa != pb ? pa > pb : a < b;
    });
    routing.experts.insert(routing.experts.end(), order.begin(), order.begin() + k);
    for (int j = 0; j < k; ++j) f[order[j]] += 1.0F / static_cast<float>(T * k);
    for (int e = 0; e < E; ++e) P[e] += probabilities[t * E + e] / static_cast<float>(T);
  }

  routing.slots.assign(T * k, -1);
  std::vector<int> free(E,
                        static_cast<int>(std::ceil(capacity_factor * static_cast<float>(k) /
                                                   static_cast<float>(E) * static_cast<float>(T))));
  const std::vector<int> capacity = free;
  for (int i = 0; i < T * k; ++i) {
    const int choice = i % T * k + i / T, expert = routing.experts[choice];
    if (free[expert] > 0) routing.slots[choice] = capacity[expert] - free[expert]--;
  }

  float tokens = static_cast<float>(T);
  all_reduce(world, {&tokens, 1}).wait();
  for (std::vector<float>* each : {&f, &P}) {
    for (float& number : *each) number *= static_cast<float>(T) / tokens;
    all_reduce(world, *each).wait();
  }
  routing.balance = static_cast<float>(E) * std::inner_product(f.begin(), f.end(), P.begin(), 0.0F);
  return routing;
}

}  // namespace lockstep::exercises
