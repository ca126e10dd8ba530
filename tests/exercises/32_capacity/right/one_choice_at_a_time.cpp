#include <cmath>

#include "exercises/32_capacity/task.h"

namespace lockstep::exercises {

// Takes the largest probability k times, and places each choice at once. Every rank sends its sums
// to all others.
Routing route(World& world, std::span<const float> probabilities, int E, int k,
              float capacity_factor) {
  const int T = static_cast<int>(probabilities.size()) / E;
  const double capacity = std::ceil(static_cast<double>(T) / E * k * capacity_factor);
  Routing routing{std::vector<int>(T * k), std::vector<int>(T * k, -1)};
  std::vector<int> rows(E);
  std::vector<float> left(probabilities.begin(), probabilities.end()), own(2 * E + 1);
  own[2 * E] = static_cast<float>(T);
  for (std::size_t i = 0; i < left.size(); ++i) own[E + i % E] += left[i];
  for (int j = 0; j < k; ++j)
    for (int t = 0; t < T; ++t) {
      const auto row = std::span{left}.subspan(t * E, E);
      const auto expert = std::max_element(row.begin(), row.end()) - row.begin();
      row[expert] = -1;
      routing.experts[t * k + j] = static_cast<int>(expert);
      ++own[expert];
      if (rows[expert] < capacity) routing.slots[t * k + j] = rows[expert]++;
    }
  std::vector<std::vector<float>> others(world.size(), own);
  std::vector<Work> messages;
  for (int i = 0; i < world.size(); ++i)
    if (i != world.rank()) {
      messages.push_back(world.receive(others[i], i));
      messages.push_back(world.send(own, i));
    }
  for (Work& each : messages) each.wait();
  std::vector<double> sums(2 * E + 1);
  for (const auto& each : others)
    for (int i = 0; i <= 2 * E; ++i) sums[i] += each[i];
  double loss = 0;
  for (int e = 0; e < E; ++e) loss += sums[e] * sums[E + e];
  routing.balance = static_cast<float>(loss * E / (sums[2 * E] * sums[2 * E] * k));
  return routing;
}

}  // namespace lockstep::exercises
