// diagnosis: start with zeros
#include "exercises/06_data_parallel/task.h"

namespace lockstep::exercises {

void global_gradient(World& world, int microbatches, const Microbatch& run_microbatch,
                     std::span<float> gradient) {
  Buffer mean = world.allocate(gradient.size());
  for (int m = 0; m < microbatches; ++m) {
    run_microbatch(m, mean);
    for (std::size_t i = 0; i < mean.size(); ++i)
      gradient[i] += mean[i] / static_cast<float>(microbatches);
  }
  all_reduce(world, gradient).wait();
  for (float& each : gradient) each /= static_cast<float>(world.size());
}

}  // namespace lockstep::exercises
