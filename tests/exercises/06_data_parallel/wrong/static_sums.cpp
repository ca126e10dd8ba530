// diagnosis: changes the static variable `sums`
#include "exercises/06_data_parallel/task.h"

namespace lockstep::exercises {

void global_gradient(World& world, int microbatches, const Microbatch& run_microbatch,
                     std::span<float> gradient) {
  static std::vector<float> sums;
  std::vector<float> mean(gradient.size());
  sums.assign(gradient.size() + 1, 0.0F);
  for (int m = 0; m < microbatches; ++m) {
    const auto count = static_cast<float>(run_microbatch(m, mean));
    sums.back() += count;
    for (std::size_t i = 0; i < mean.size(); ++i) sums[i] += mean[i] * count;
  }
  std::vector<float> mine = sums;
  all_reduce(world, mine).wait();
  for (std::size_t i = 0; i < mean.size(); ++i) gradient[i] = mine[i] / mine.back();
}

}  // namespace lockstep::exercises
