#include "exercises/14_gpipe/task.h"

namespace lockstep::exercises {

std::vector<Action> gpipe(int stage, int stages, int microbatches) {
  // Delete these lines and write yours.
  (void)stage, (void)stages, (void)microbatches;
  not_written();
}

}  // namespace lockstep::exercises
