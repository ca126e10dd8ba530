#include "exercises/06_data_parallel/task.h"

namespace lockstep::exercises {

void global_gradient(World& world, int microbatches, const Microbatch& run_microbatch,
                     std::span<float> gradient) {
  const std::size_t n = gradient.size();
  Buffer mean = world.allocate(n);
  Buffer sums = world.allocate(n);
  float count = 0;
  for (int microbatch = 0; microbatch < microbatches; ++microbatch) {
    const auto samples = static_cast<float>(run_microbatch(microbatch, mean));
    for (std::size_t i = 0; i < n; ++i) sums[i] += samples * mean[i];
    count += samples;
  }
  Work counted = all_reduce(world, {&count, 1});
  all_reduce(world, sums).wait();
  counted.wait();
  for (std::size_t i = 0; i < n; ++i) gradient[i] = sums[i] * (1 / count);
}

}  // namespace lockstep::exercises
