// diagnosis: only the innermost axis has its neighbours side by side
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
  std::vector<int> group;
  const int size = mesh[axis].size;
  for (int i = 0; i < size; ++i) group.push_back(rank / size * size + i);
  return group;
}

}  // namespace lockstep::exercises
