#pragma once

#include <string>
#include <vector>

#include "viz/data/layout/mesh_places.h"
#include "viz/read/timeline/timeline.h"

namespace lockstep::viz {

/// The positions of a run's ranks on the nodes of its cluster and on the axes of its mesh.
struct PlanLayout {
  /// The largest number of ranks that the panel draws.
  static constexpr int most_ranks = 4096;

  MeshPlaces places;
  std::vector<std::vector<int>> nodes;  ///< the ranks of each node; a single one if unknown
  bool nodes_known = false;             ///< only in modelled time, whose cluster has nodes

  /// The members of each group of an axis, by their first rank.
  std::vector<std::vector<int>> groups(Axis axis) const;
};

/// Returns the layout of a run whose trace describes a mesh of at most `most_ranks` ranks;
/// otherwise a layout without nodes.
PlanLayout plan_layout(const RunInfo& run);
/// Returns whether the run has such a layout.
bool has_plan(const RunInfo& run);

/// Says what an axis divides, and where its groups are: "tp divides each layer: 8 groups of 2
/// ranks, each within a node".
std::string plan_axis_words(const PlanLayout& layout, Axis axis);
/// Says where a rank is, and which ranks are in its group of an axis.
std::vector<std::string> place_words(const PlanLayout& layout, int rank, Axis axis);

/// A grid of nodes, each with a grid of ranks.
struct PlanGrid {
  int node_columns = 1, rank_columns = 1;
  float width = 0, height = 0;  ///< of a rank's cell
};
/// Returns the grid with the largest cells, wider than they are tall, for `nodes` boxes of `ranks`
/// cells each in an area. `margin` is the space around the cells of a box on each side, and `head`
/// the height of its title.
PlanGrid plan_grid(int nodes, int ranks, float width, float height, float margin, float head);

}  // namespace lockstep::viz
