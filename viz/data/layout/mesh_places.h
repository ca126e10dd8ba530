#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "core/plan/mesh.h"
#include "viz/read/timeline/timeline.h"

namespace lockstep::viz {

/// The coordinates of each rank on the axes of the run's mesh, which the trace's hello describes.
class MeshPlaces {
 public:
  MeshPlaces() = default;
  /// Empty if the hello has no mesh, or one whose sizes do not multiply to the number of ranks.
  explicit MeshPlaces(const RunInfo& run);

  bool empty() const { return axes_.empty(); }
  /// The axes with more than one rank, such as pp, dp and tp: from those between nodes to those
  /// within one.
  const std::vector<Axis>& axes() const { return axes_; }
  int size(Axis axis) const { return mesh_.size(axis); }
  /// Returns the coordinate of a rank; -1 if the mesh has no such rank.
  int coordinate(int rank, Axis axis) const;
  /// Returns the ranks that differ from `rank`, which the mesh has, only on this axis.
  std::vector<int> group(int rank, Axis axis) const { return mesh_.group(rank, axis); }
  /// Returns the rank's coordinates: "pp0 dp1 tp1"; "" if they are unknown.
  std::string words(int rank) const;
  /// The same for several ranks, with * for the axes on which they differ: "pp0 dp* tp1".
  std::string words(const std::vector<int>& ranks) const;

 private:
  Mesh mesh_;
  std::vector<Axis> axes_;
};

}  // namespace lockstep::viz
