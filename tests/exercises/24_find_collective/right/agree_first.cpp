#include <map>

#include "exercises/24_find_collective/task.h"

namespace lockstep::exercises {

void train_step(World& world, std::vector<std::vector<float>>& experts,
                const std::vector<Sample>& samples) {
  std::vector<std::vector<const Sample*>> routed(experts.size());
  for (const Sample& sample : samples) routed[sample.expert].push_back(&sample);

  // The number of each expert's samples on all ranks: experts without samples are left out.
  Buffer counts = world.allocate(experts.size());
  for (const Sample& sample : samples) ++counts[sample.expert];
  all_reduce(world, counts).wait();

  std::map<std::size_t, Buffer> gradients;
  std::vector<Work> sums;
  for (std::size_t expert = experts.size(); expert-- > 0;) {
    if (counts[expert] == 0) continue;
    Buffer& gradient = gradients[expert] = world.allocate(experts[expert].size());
    for (const Sample* sample : routed[expert])
      for (std::size_t k = 0; k < gradient.size(); ++k) gradient[k] += sample->x[k];
    if (!routed[expert].empty())
      world.compute(fmt::format("E{}", expert), 20 * static_cast<double>(routed[expert].size()));
    sums.push_back(all_reduce(world, gradient));
  }

  for (Work& sum : sums) sum.wait();
  for (auto& [expert, gradient] : gradients)
    for (std::size_t k = 0; k < gradient.size(); ++k) experts[expert][k] -= gradient[k];
}

}  // namespace lockstep::exercises
