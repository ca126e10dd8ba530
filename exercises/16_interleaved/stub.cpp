#include "exercises/16_interleaved/task.h"

namespace lockstep::exercises {

std::vector<Action> interleaved(int rank, int ranks, int chunks, int microbatches) {
  // Delete these lines and write yours.
  (void)rank, (void)ranks, (void)chunks, (void)microbatches;
  not_written();
}

}  // namespace lockstep::exercises
