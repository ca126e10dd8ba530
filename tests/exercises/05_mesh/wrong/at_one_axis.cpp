// diagnosis: a mesh of tp 2: the answer uses an element that is not there
#include "exercises/05_mesh/task.h"

namespace lockstep::exercises {

std::vector<int> coordinates_of(int rank, const MeshAxes& mesh) {
  std::vector<int> at;
  for (std::size_t i = 0; i < mesh.size(); ++i) {
    at.push_back(rank % mesh.at(i).size);
    rank /= mesh.at(i + 1).size;
  }
  return at;
}
int rank_of(const std::vector<int>& c, const MeshAxes& mesh) {
  int rank = 0;
  for (std::size_t i = mesh.size(); i-- > 0;) rank = rank * mesh[i].size + c[i];
  return rank;
}
std::vector<int> group_of(int rank, std::size_t axis, const MeshAxes& mesh) {
  auto at = coordinates_of(rank, mesh);
  std::vector<int> group;
  for (at[axis] = 0; at[axis] < mesh[axis].size; ++at[axis]) group.push_back(rank_of(at, mesh));
  return group;
}

}  // namespace lockstep::exercises
