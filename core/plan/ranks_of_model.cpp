#include "core/plan/ranks_of_model.h"

#include <algorithm>

namespace lockstep {

bool divides_layers(const Plan& plan) {
  return std::ranges::any_of(plan.parameters(), [&](const ParameterSpec& spec) {
    return std::ranges::any_of(spec.cuts,
                               [&](const Cut& cut) { return plan.mesh.size(cut.axis) > 1; });
  });
}

std::vector<int> sharers(const Place& place, int shards) {
  const auto first =
      place.group(Axis::dp_cp).begin() + place.coordinate(Axis::dp_cp) / shards * shards;
  return {first, first + shards};
}

std::vector<int> replicas_of_shard(const Place& place, int shards) {
  const std::vector<int>& group = place.group(Axis::dp_cp);
  std::vector<int> replicas;
  for (int i = place.coordinate(Axis::dp_cp) % shards; i < place.size(Axis::dp_cp); i += shards)
    replicas.push_back(group[static_cast<std::size_t>(i)]);
  return replicas;
}

std::vector<int> ranks_of_model(const Plan& plan, int rank, int shards) {
  const bool divides = divides_layers(plan);
  std::vector<int> ranks;
  for (const int sharer : sharers(plan.place(rank), shards)) {
    const std::vector<int> more =
        divides ? plan.mesh.group(sharer, {Axis::tp, Axis::pp}) : plan.mesh.group(sharer, Axis::pp);
    ranks.insert(ranks.end(), more.begin(), more.end());
  }
  std::ranges::sort(ranks);
  return ranks;
}

bool is_first_holder(const Plan& plan, const ParameterSpec& spec, int rank) {
  const bool cut =
      std::ranges::any_of(spec.cuts, [](const Cut& each) { return each.axis == Axis::tp; });
  return cut || !divides_layers(plan) || plan.mesh.coordinate(rank, Axis::tp) == 0;
}

}  // namespace lockstep
