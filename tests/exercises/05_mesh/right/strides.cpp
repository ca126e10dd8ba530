#include "exercises/05_mesh/task.h"

namespace lockstep::exercises {

namespace {

int stride_of(std::size_t axis, const MeshAxes& mesh) {
  return axis == 0 ? 1 : stride_of(axis - 1, mesh) * mesh[axis - 1].size;
}

}  // namespace

std::vector<int> coordinates_of(int rank, const MeshAxes& mesh) {
  std::vector<int> coordinates(mesh.size());
  for (std::size_t i = mesh.size(); i-- > 0;) {  // from the outermost
    coordinates[i] = rank / stride_of(i, mesh);
    rank -= coordinates[i] * stride_of(i, mesh);
  }
  return coordinates;
}

int rank_of(const std::vector<int>& coordinates, const MeshAxes& mesh) {
  int rank = 0;
  for (std::size_t i = mesh.size(); i-- > 0;) rank = rank * mesh[i].size + coordinates[i];
  return rank;
}

std::vector<int> group_of(int rank, std::size_t axis, const MeshAxes& mesh) {
  const int stride = stride_of(axis, mesh), size = mesh[axis].size;
  const int first = rank - rank / stride % size * stride;
  std::vector<int> group(static_cast<std::size_t>(size));
  for (int i = 0; i < size; ++i) group[static_cast<std::size_t>(i)] = first + i * stride;
  return group;
}

}  // namespace lockstep::exercises
