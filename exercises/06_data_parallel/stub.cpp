#include "exercises/06_data_parallel/task.h"

namespace lockstep::exercises {

void global_gradient(World& world, int microbatches, const Microbatch& run_microbatch,
                     std::span<float> gradient) {
  // Delete these lines and write yours.
  (void)world, (void)microbatches, (void)run_microbatch, (void)gradient;
  not_written();
}

}  // namespace lockstep::exercises
