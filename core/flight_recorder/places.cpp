#include "core/flight_recorder/places.h"

#include <algorithm>

namespace lockstep::flight {
namespace {

bool divides_ranks(const std::vector<const ProcessGroup*>& groups, std::size_t ranks) {
  const std::size_t size = groups.front()->members.size();
  if (groups.size() < 2 || size < 2 || groups.size() * size != ranks) return false;
  std::vector<int> all;
  for (const ProcessGroup* group : groups) {
    if (group->members.size() != size) return false;
    all.insert(all.end(), group->members.begin(), group->members.end());
  }
  std::ranges::sort(all);
  return std::ranges::adjacent_find(all) == all.end();
}

}  // namespace

std::string axis_of(const std::string& description) {
  constexpr std::string_view mesh = "mesh_";
  return description.starts_with(mesh) ? description.substr(mesh.size()) : description;
}

std::map<int, std::vector<std::pair<std::string, int>>> places_of(const ProcessGroups& groups) {
  std::map<std::string, std::vector<const ProcessGroup*>> by_description;
  for (const ProcessGroup& group : groups.all)
    if (!group.description.empty()) by_description[group.description].push_back(&group);
  std::map<int, std::vector<std::pair<std::string, int>>> places;
  for (const auto& [description, all] : by_description) {
    if (!divides_ranks(all, groups.ranks.size())) continue;
    for (const ProcessGroup* group : all)
      for (std::size_t i = 0; i < group->order.size(); ++i)
        places[group->order[i]].emplace_back(axis_of(description), static_cast<int>(i));
  }
  return places;
}

}  // namespace lockstep::flight
