// diagnosis: Both are of the same size
#include "exercises/24_find_collective/task.h"

namespace lockstep::exercises {

void train_step(World& world, std::vector<std::vector<float>>& experts,
                const std::vector<Sample>& samples) {
  std::vector<std::vector<const Sample*>> routed(experts.size());
  for (const Sample& sample : samples) routed[sample.expert].push_back(&sample);

  std::vector<std::size_t> order(experts.size());
  for (std::size_t i = 0; i < order.size(); ++i) order[i] = i;
  std::ranges::stable_sort(
      order, [&](std::size_t a, std::size_t b) { return routed[a].size() > routed[b].size(); });
  std::vector<Buffer> gradients(experts.size());
  std::vector<Work> sums;
  for (const std::size_t expert : order) {
    Buffer gradient = world.allocate(experts[expert].size());
    for (const Sample* sample : routed[expert])
      for (std::size_t k = 0; k < gradient.size(); ++k) gradient[k] += sample->x[k];
    if (!routed[expert].empty())
      world.compute(fmt::format("E{}", expert), 20 * static_cast<double>(routed[expert].size()));
    sums.push_back(all_reduce(world, gradient));
    gradients[expert] = std::move(gradient);
  }

  for (Work& sum : sums) sum.wait();
  for (std::size_t expert = 0; expert < experts.size(); ++expert)
    for (std::size_t k = 0; k < experts[expert].size(); ++k)
      experts[expert][k] -= gradients[expert][k];
}

}  // namespace lockstep::exercises
