#include "exercises/05_mesh/task.h"

namespace lockstep::exercises {

// Replace each not_written() by your answer.

std::vector<int> coordinates_of(int rank, const MeshAxes& mesh) {
  (void)rank, (void)mesh;
  not_written();
}

int rank_of(const std::vector<int>& coordinates, const MeshAxes& mesh) {
  (void)coordinates, (void)mesh;
  not_written();
}

std::vector<int> group_of(int rank, std::size_t axis, const MeshAxes& mesh) {
  (void)rank, (void)axis, (void)mesh;
  not_written();
}

}  // namespace lockstep::exercises
