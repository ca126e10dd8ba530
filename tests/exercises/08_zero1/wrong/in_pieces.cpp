// diagnosis: but they are sent in pieces
#include "exercises/08_zero1/task.h"

namespace lockstep::exercises {

ModelStates allocate_states(World& world, std::size_t n) {
  const auto N = static_cast<std::size_t>(world.size());
  const std::size_t shard = (n + N - 1) / N;
  return {world.allocate(N * shard), world.allocate(N * shard), world.allocate(shard),
          world.allocate(shard)};
}
void step(World& world, ModelStates& states) {
  const int N = world.size(), r = world.rank();
  reduce_scatter(world, states.gradients).wait();
  adamw(chunk(states.parameters.span(), r, N), chunk(states.gradients.span(), r, N),
        states.momentum, states.variance);
  for (int root = 0; root < N; ++root)
    for (std::size_t i = 0; i < states.momentum.size(); ++i)
      broadcast(world, chunk(states.parameters.span(), root, N).subspan(i, 1), root).wait();
}

}  // namespace lockstep::exercises
