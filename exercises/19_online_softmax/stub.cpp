#include "exercises/19_online_softmax/task.h"

namespace lockstep::exercises {

void merge(std::span<float> y, float& lse, std::span<const float> y_part, float lse_part) {
  // Delete these lines and write yours.
  (void)y, (void)lse, (void)y_part, (void)lse_part;
  not_written();
}

}  // namespace lockstep::exercises
