#include "viz/data/layout/mesh_places.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "core/base/error.h"

namespace lockstep::viz {

MeshPlaces::MeshPlaces(const RunInfo& run) {
  std::array<int, axis_count> sizes{1, 1, 1, 1};
  int experts = 1;
  std::int64_t product = 1;
  for (const auto& [name, size] : run.mesh) {
    if (size < 1 || size > run.ranks) return;
    if (name == name_of(Axis::ep)) {
      experts = size;
      continue;
    }
    int axis = 0;
    while (axis < axis_count && name != name_of(static_cast<Axis>(axis))) ++axis;
    if (axis == axis_count || sizes[static_cast<std::size_t>(axis)] != 1) return;
    sizes[static_cast<std::size_t>(axis)] = size;
    product *= size;
    if (product > run.ranks) return;
  }
  if (product != run.ranks) return;
  const auto order = std::ranges::find(
      run.config, "order", [](const auto& entry) { return std::string_view{entry.first}; });
  try {
    mesh_ =
        order == run.config.end() ? Mesh{run.ranks, sizes} : Mesh{run.ranks, sizes, order->second};
    if (experts > 1) mesh_ = mesh_.with_experts(experts);
  } catch (const UsageError&) {
    return;
  }
  for (const Axis axis : {Axis::pp, Axis::dp, Axis::cp, Axis::tp, Axis::ep})
    if (mesh_.size(axis) > 1) axes_.push_back(axis);
}

int MeshPlaces::coordinate(int rank, Axis axis) const {
  return rank < 0 || rank >= mesh_.ranks() ? -1 : mesh_.coordinate(rank, axis);
}

std::string MeshPlaces::words(int rank) const {
  return words(std::vector{rank});
}

std::string MeshPlaces::words(const std::vector<int>& ranks) const {
  std::string words;
  for (const Axis axis : axes_) {
    const int first = coordinate(ranks.front(), axis);
    if (first < 0) return {};
    const bool same =
        std::ranges::all_of(ranks, [&](int rank) { return coordinate(rank, axis) == first; });
    words += fmt::format("{}{}{}", words.empty() ? "" : " ", name_of(axis),
                         same ? std::to_string(first) : "*");
  }
  return words;
}

}  // namespace lockstep::viz
