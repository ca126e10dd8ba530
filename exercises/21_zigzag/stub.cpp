#include "exercises/21_zigzag/task.h"

namespace lockstep::exercises {

std::vector<int> positions_of(int rank, int ranks, int length) {
  // Delete these lines and write yours.
  (void)rank, (void)ranks, (void)length;
  not_written();
}

}  // namespace lockstep::exercises
