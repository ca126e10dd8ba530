#include "exercises/17_zero_bubble/task.h"

namespace lockstep::exercises {

std::vector<Action> zero_bubble(int stage, int stages, int microbatches) {
  // Delete these lines and write yours.
  (void)stage, (void)stages, (void)microbatches;
  not_written();
}

}  // namespace lockstep::exercises
