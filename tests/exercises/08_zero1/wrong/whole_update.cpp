// diagnosis: All four spans are of this rank's shard
#include "exercises/08_zero1/task.h"

namespace lockstep::exercises {

ModelStates allocate_states(World& world, std::size_t n) {
  const auto N = static_cast<std::size_t>(world.size());
  const std::size_t shard = (n + N - 1) / N;
  return {.parameters = world.allocate(N * shard),
          .gradients = world.allocate(N * shard),
          .momentum = world.allocate(shard),
          .variance = world.allocate(shard)};
}

void step(World& world, ModelStates& states) {
  reduce_scatter(world, states.gradients).wait();
  adamw(states.parameters, states.gradients, states.momentum, states.variance);
  all_gather(world, states.parameters).wait();
}

}  // namespace lockstep::exercises
