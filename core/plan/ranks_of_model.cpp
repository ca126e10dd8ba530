#include "core/plan/ranks_of_model.h"

#include <algorithm>
#include <set>

namespace lockstep {

bool divides_layers(const Plan& plan) {
  return std::ranges::any_of(plan.parameters(), [&](const ParameterSpec& spec) {
    return std::ranges::any_of(spec.cuts,
                               [&](const Cut& cut) { return plan.mesh.size(cut.axis) > 1; });
  });
}

bool divides_experts(const Plan& plan) {
  return plan.mesh.size(Axis::ep) > 1 &&
         std::ranges::any_of(plan.parameters(),
                             [](const ParameterSpec& spec) { return spec.is_cut_along(Axis::ep); });
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
  const Place place = plan.place(rank);
  std::set<int> ranks;
  const auto add = [&](const std::vector<int>& among) {
    for (const int each : among) {
      const std::vector<int> more =
          divides ? plan.mesh.group(each, {Axis::tp, Axis::pp}) : plan.mesh.group(each, Axis::pp);
      ranks.insert(more.begin(), more.end());
    }
  };
  add(sharers(place, shards));
  if (divides_experts(plan)) add(place.group(Axis::ep));
  return {ranks.begin(), ranks.end()};
}

bool is_first_holder(const Plan& plan, const ParameterSpec& spec, int rank) {
  const auto is_first = [&](Axis axis) {
    return spec.is_cut_along(axis) || plan.mesh.coordinate(rank, axis) == 0;
  };
  return (!divides_layers(plan) || is_first(Axis::tp)) &&
         (!divides_experts(plan) || is_first(Axis::ep));
}

}  // namespace lockstep
