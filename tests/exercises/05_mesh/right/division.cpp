#include "exercises/05_mesh/task.h"

// Uses strides and divisions, and finds groups by searching all ranks.

namespace lockstep::exercises {

static int stride_of(const MeshAxes& mesh, std::size_t axis) {
  int stride = 1;
  for (std::size_t i = 0; i < axis; ++i) stride *= mesh.at(i).size;
  return stride;
}
std::vector<int> coordinates_of(int rank, const MeshAxes& mesh) {
  std::vector<int> at(mesh.size());
  for (std::size_t i = 0; i < mesh.size(); ++i) at.at(i) = rank / stride_of(mesh, i) % mesh[i].size;
  return at;
}
int rank_of(const std::vector<int>& coordinates, const MeshAxes& mesh) {
  int rank = 0;
  for (std::size_t i = mesh.size(); i-- > 0;) rank = rank * mesh[i].size + coordinates[i];
  return rank;
}
std::vector<int> group_of(int rank, std::size_t axis, const MeshAxes& mesh) {
  std::vector<int> group;
  const auto mine = coordinates_of(rank, mesh);
  for (int other = 0; other < stride_of(mesh, mesh.size()); ++other) {
    auto theirs = coordinates_of(other, mesh);
    theirs[axis] = mine[axis];
    if (theirs == mine) group.push_back(other);
  }
  return group;
}

}  // namespace lockstep::exercises
