#include "exercises/05_mesh/task.h"

namespace lockstep::exercises {

// A rank is a number whose digits are its coordinates, lowest digit first. Each digit has its own
// base: the axis's size.

std::vector<int> coordinates_of(int rank, const MeshAxes& mesh) {
  std::vector<int> coordinates;
  for (const MeshAxis& axis : mesh) {
    coordinates.push_back(rank % axis.size);
    rank /= axis.size;
  }
  return coordinates;
}

int rank_of(const std::vector<int>& coordinates, const MeshAxes& mesh) {
  int rank = 0;
  int stride = 1;  // distance between neighbours on an axis: one step passes all inner axes
  for (std::size_t i = 0; i < mesh.size(); ++i) {
    rank += coordinates[i] * stride;
    stride *= mesh[i].size;
  }
  return rank;
}

std::vector<int> group_of(int rank, std::size_t axis, const MeshAxes& mesh) {
  std::vector<int> group, at = coordinates_of(rank, mesh);
  for (at[axis] = 0; at[axis] < mesh[axis].size; ++at[axis]) group.push_back(rank_of(at, mesh));
  return group;
}

}  // namespace lockstep::exercises
