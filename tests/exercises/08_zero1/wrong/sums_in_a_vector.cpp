// diagnosis: it takes memory that is not counted
#include "exercises/08_zero1/task.h"

namespace lockstep::exercises {

ModelStates allocate_states(World& world, std::size_t n) {
  const auto N = static_cast<std::size_t>(world.size());
  const std::size_t shard = (n + N - 1) / N;  // rounded up: every parameter needs an owner
  return {.parameters = world.allocate(N * shard),
          .gradients = world.allocate(N * shard),
          .momentum = world.allocate(shard),
          .variance = world.allocate(shard)};
}

void step(World& world, ModelStates& states) {
  const int rank = world.rank(), N = world.size();
  // The first half of an all-reduce is enough: a rank needs the sums of its own shard only.
  std::vector<float> sums(states.gradients.span().begin(), states.gradients.span().end());
  reduce_scatter(world, sums).wait();
  adamw(chunk(states.parameters.span(), rank, N), chunk(std::span{sums}, rank, N), states.momentum,
        states.variance);
  // The second half sends the updated parameters in place of the sums.
  all_gather(world, states.parameters).wait();
}

}  // namespace lockstep::exercises
