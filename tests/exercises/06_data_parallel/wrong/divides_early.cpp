// diagnosis: had not yet left there
#include "exercises/06_data_parallel/task.h"

namespace lockstep::exercises {

void global_gradient(World& world, int microbatches, const Microbatch& run_microbatch,
                     std::span<float> gradient) {
  std::vector<float> sums(gradient.size() + 1, 0.0F), mean(gradient.size());
  for (int m = 0; m < microbatches; ++m) {
    const auto count = static_cast<float>(run_microbatch(m, mean));
    for (std::size_t i = 0; i < mean.size(); ++i) sums[i] += count * mean[i];
    sums.back() += count;
  }
  Work w = all_reduce(world, sums);
  for (std::size_t i = 0; i < mean.size(); ++i) gradient[i] = sums[i] / sums.back();
  w.wait();
}

}  // namespace lockstep::exercises
