#include "exercises/08_zero1/task.h"

// A reduce-scatter by direct messages: each rank sends each chunk to its owner.

namespace lockstep::exercises {

ModelStates allocate_states(World& world, std::size_t n) {
  const auto N = static_cast<std::size_t>(world.size());
  const std::size_t padded = (n + N - 1) / N * N;
  ModelStates s;
  s.momentum = world.allocate(padded / N);
  s.variance = world.allocate(padded / N);
  s.gradients = world.allocate(padded);
  s.parameters = world.allocate(padded);
  return s;
}
void step(World& world, ModelStates& states) {
  const int N = world.size(), r = world.rank();
  const auto mine = chunk(states.gradients.span(), r, N);
  std::vector<float> arrived(mine.size());
  for (int k = 1; k < N; ++k) {
    Work sent = world.send(chunk(states.gradients.span(), (r + k) % N, N), (r + k) % N);
    world.receive(arrived, (r + N - k) % N).wait();
    for (std::size_t i = 0; i < mine.size(); ++i) mine[i] += arrived[i];
    sent.wait();
  }
  const auto parameters = chunk(states.parameters.span(), r, N);
  for (std::size_t i = 0; i < mine.size(); ++i)
    adamw(parameters.subspan(i, 1), mine.subspan(i, 1), states.momentum.span().subspan(i, 1),
          states.variance.span().subspan(i, 1));
  all_gather(world, states.parameters).wait();
}

}  // namespace lockstep::exercises
