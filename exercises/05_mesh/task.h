#pragma once

#include "exercises/frame/world.h"

namespace lockstep::exercises {

/// One axis of a mesh: its name, such as "tp", and the number of ranks along it, at least 1.
struct MeshAxis {
  std::string name;
  int size = 1;
};

/// A mesh is the list of its axes (at least one), from the innermost to the outermost. Ranks are
/// numbered from 0. From one rank to the next, the coordinate on the innermost axis grows by 1;
/// when it has reached the axis's size, it starts again at 0 and the coordinate on the next axis
/// grows by 1, as with the digits of a number. Rank 0's coordinates are all 0. The number of ranks
/// is the product of all sizes.
using MeshAxes = std::vector<MeshAxis>;

/// Returns the rank's coordinates on all axes, in the order of `mesh`, each from 0 to size - 1.
std::vector<int> coordinates_of(int rank, const MeshAxes& mesh);

/// Returns the rank with these coordinates, which are given in the order of `mesh`.
int rank_of(const std::vector<int>& coordinates, const MeshAxes& mesh);

/// Returns the group of `rank` along axis mesh[axis]: the ranks whose coordinates on all other axes
/// are the same as those of `rank`, itself included, in ascending order of their coordinate on this
/// axis.
std::vector<int> group_of(int rank, std::size_t axis, const MeshAxes& mesh);

}  // namespace lockstep::exercises
