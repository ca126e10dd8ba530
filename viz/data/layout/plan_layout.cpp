#include "viz/data/layout/plan_layout.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "viz/data/step/run_cluster.h"
#include "viz/data/step/shards.h"

namespace lockstep::viz {
namespace {

constexpr float cell_aspect = 1.7f;  // width relative to height, if there is room

const char* divided_by(Axis axis) {
  switch (axis) {
    case Axis::tp:
      return "divides each layer";
    case Axis::cp:
      return "divides each sequence";
    case Axis::dp:
      return "divides the samples";
    case Axis::pp:
      return "divides the layers into stages";
    case Axis::ep:
      return "divides the experts";
    case Axis::edp:
    case Axis::dp_cp:
      break;
  }
  return "divides the samples' tokens";
}

std::size_t node_of(const PlanLayout& layout, int rank) {
  for (std::size_t i = 0; i < layout.nodes.size(); ++i)
    if (std::ranges::binary_search(layout.nodes[i], rank)) return i;
  return layout.nodes.size();
}

std::size_t nodes_of(const PlanLayout& layout, const std::vector<int>& ranks) {
  std::set<std::size_t> nodes;
  for (const int rank : ranks) nodes.insert(node_of(layout, rank));
  return nodes.size();
}

}  // namespace

std::vector<std::vector<int>> PlanLayout::groups(Axis axis) const {
  std::vector<std::vector<int>> groups;
  for (const auto& node : nodes)
    for (const int rank : node)
      if (places.coordinate(rank, axis) == 0) groups.push_back(places.group(rank, axis));
  return groups;
}

bool has_plan(const RunInfo& run) {
  return run.ranks > 1 && run.ranks <= PlanLayout::most_ranks && !MeshPlaces{run}.empty();
}

PlanLayout plan_layout(const RunInfo& run) {
  PlanLayout layout;
  if (!has_plan(run)) return layout;
  layout.places = MeshPlaces{run};
  int per_node = run.ranks;
  if (const auto cluster = simulated_cluster(run); cluster && cluster->ranks_per_node > 0) {
    layout.nodes_known = true;
    per_node = std::min(cluster->ranks_per_node, run.ranks);
  }
  for (int rank = 0; rank < run.ranks; ++rank) {
    if (rank % per_node == 0) layout.nodes.emplace_back();
    layout.nodes.back().push_back(rank);
  }
  return layout;
}

std::string plan_axis_words(const PlanLayout& layout, Axis axis) {
  const auto groups = layout.groups(axis);
  if (groups.empty()) return {};
  std::string words =
      fmt::format("{} {}: {} group{} of {} ranks", name_of(axis), divided_by(axis), groups.size(),
                  groups.size() == 1 ? "" : "s", groups.front().size());
  if (!layout.nodes_known) return words + ".";
  const auto across = [&](const std::vector<int>& group) { return nodes_of(layout, group); };
  const auto [least, most] = std::ranges::minmax(groups, {}, across);
  const std::size_t low = across(least), high = across(most);
  const char* each = groups.size() == 1 ? "" : "each ";
  if (high == 1) return fmt::format("{}, {}within a node.", words, each);
  if (low == high) return fmt::format("{}, {}across {} nodes.", words, each, high);
  return fmt::format("{}, each across {} to {} nodes.", words, low, high);
}

std::vector<std::string> place_words(const PlanLayout& layout, int rank, Axis axis) {
  std::vector<std::string> lines{fmt::format("rank {}: {}", rank, layout.places.words(rank))};
  if (layout.nodes_known) lines.push_back(fmt::format("on node {}", node_of(layout, rank)));
  lines.push_back(
      fmt::format("{} group: {}", name_of(axis), ranks_words(layout.places.group(rank, axis))));
  return lines;
}

PlanGrid plan_grid(int nodes, int ranks, float width, float height, float margin, float head) {
  PlanGrid best;
  float best_size = -1;
  for (int columns = 1; columns <= nodes; ++columns) {
    const float across = static_cast<float>(columns);
    const float down = static_cast<float>((nodes + columns - 1) / columns);
    const float room = width / across - 2 * margin, rest = height / down - head - 2 * margin;
    for (int inner = 1; inner <= ranks; ++inner) {
      const float cell = std::max(room / static_cast<float>(inner), 1.0f);
      const float tall = std::max(rest / static_cast<float>((ranks + inner - 1) / inner), 1.0f);
      const float size = std::min(cell / cell_aspect, tall);
      if (size <= best_size) continue;
      best_size = size;
      best = {columns, inner, cell, tall};
    }
  }
  best.width = std::min(best.width, 3 * best.height);
  best.height = std::min(best.height, best.width);
  return best;
}

}  // namespace lockstep::viz
