#include "viz/read/flight_recorder/places.h"

#include <fmt/format.h>

#include <algorithm>

namespace lockstep::flight {
namespace {

/// Whether these groups of one description are of equal size and contain each rank exactly once.
bool divide_ranks(const std::vector<const ProcessGroup*>& groups, std::size_t ranks) {
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

std::map<int, Place> places_of(const ProcessGroups& groups) {
  std::map<std::string, std::vector<const ProcessGroup*>> by_description;
  for (const ProcessGroup& group : groups.all)
    if (!group.description.empty()) by_description[group.description].push_back(&group);
  std::map<int, Place> places;
  for (const auto& [description, all] : by_description) {
    if (!divide_ranks(all, groups.ranks.size())) continue;
    for (const ProcessGroup* group : all)
      for (std::size_t i = 0; i < group->order.size(); ++i)
        places[group->order[i]].emplace_back(axis_of(description), static_cast<int>(i));
  }
  return places;
}

std::string place_words(const Place& place) {
  std::string words;
  for (const auto& [axis, index] : place)
    words += fmt::format("{}{}{}", words.empty() ? "" : " ", axis, index);
  return words;
}

}  // namespace lockstep::flight
