// diagnosis: this rank updates more than its own shard
#include "exercises/08_zero1/task.h"

namespace lockstep::exercises {

ModelStates allocate_states(World& world, std::size_t n) {
  const auto N = static_cast<std::size_t>(world.size());
  const std::size_t shard = (n + N - 1) / N;
  return {world.allocate(N * shard), world.allocate(N * shard), world.allocate(shard),
          world.allocate(shard)};
}
void step(World& world, ModelStates& states) {
  thread_local std::vector<float> momentum, variance;
  thread_local const void* whose = nullptr;
  if (whose != &states || momentum.size() != states.parameters.size()) {
    momentum.assign(states.parameters.size(), 0.0F);
    variance = momentum;
    whose = &states;
  }
  all_reduce(world, states.gradients).wait();
  adamw(states.parameters, states.gradients, momentum, variance);
}

}  // namespace lockstep::exercises
