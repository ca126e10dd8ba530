// diagnosis: Is the rank itself always the first
#include "exercises/05_mesh/task.h"

namespace lockstep::exercises {

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
  int stride = 1;
  for (std::size_t i = 0; i < mesh.size(); ++i) {
    rank += coordinates[i] * stride;
    stride *= mesh[i].size;
  }
  return rank;
}

std::vector<int> group_of(int rank, std::size_t axis, const MeshAxes& mesh) {
  std::vector<int> group, at = coordinates_of(rank, mesh);
  for (int i = 0; i < mesh[axis].size; ++i) {
    group.push_back(rank_of(at, mesh));
    at[axis] = (at[axis] + 1) % mesh[axis].size;
  }
  return group;
}

}  // namespace lockstep::exercises
