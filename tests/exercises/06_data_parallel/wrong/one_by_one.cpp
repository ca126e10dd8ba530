// diagnosis: there are too many messages
#include "exercises/06_data_parallel/task.h"

namespace lockstep::exercises {

void global_gradient(World& world, int microbatches, const Microbatch& run_microbatch,
                     std::span<float> gradient) {
  std::vector<float> mean(gradient.size()), sums(gradient.size() + 1, 0.0F);
  for (int m = 0; m < microbatches; ++m) {
    const auto count = static_cast<float>(run_microbatch(m, mean));
    sums.back() += count;
    for (std::size_t i = 0; i < mean.size(); ++i) sums[i] += mean[i] * count;
  }
  for (float& each : sums) all_reduce(world, std::span{&each, 1}).wait();
  for (std::size_t i = 0; i < mean.size(); ++i) gradient[i] = sums[i] / sums.back();
}

}  // namespace lockstep::exercises
