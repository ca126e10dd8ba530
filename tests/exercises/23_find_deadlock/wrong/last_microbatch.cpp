// diagnosis: This is the gradient of microbatch
#include "exercises/23_find_deadlock/task.h"

namespace lockstep::exercises {

float train_step(World& world, float weight, std::span<const float> batch, int microbatches,
                 std::size_t size) {
  const int stage = world.rank(), last = world.size() - 1;
  std::vector<Buffer> inputs(static_cast<std::size_t>(microbatches));  // kept for backward passes
  float gradient = 0;

  // The message that this rank sends, at most one at a time. Its numbers must stay unchanged until
  // the receiver has taken it.
  Buffer outgoing;
  Work sent;
  const auto finish_sending = [&] {
    if (sent) sent.wait();
    sent = Work{};
    outgoing.reset();
  };

  const auto forward = [&](int i) {
    Buffer& x = inputs[static_cast<std::size_t>(i)];
    x = world.allocate(size);
    if (stage == 0)
      std::ranges::copy(batch.subspan(static_cast<std::size_t>(i) * size, size), x.span().begin());
    else
      world.receive(x, stage - 1).wait();
    // Two neighbours may be sending to each other. So a rank waits for its own send only after it
    // has received.
    finish_sending();
    world.compute(fmt::format("F{}", i), 100);
    if (stage == last) return;
    Buffer y = world.allocate(size);
    for (std::size_t k = 0; k < size; ++k) y[k] = weight * x[k];
    outgoing = std::move(y);
    sent = world.send(outgoing, stage + 1);
  };

  const auto backward = [&](int i) {
    Buffer& x = inputs[static_cast<std::size_t>(i)];
    Buffer dy = world.allocate(size);
    if (stage == last)
      for (std::size_t k = 0; k < size; ++k) dy[k] = weight * x[k];
    else
      world.receive(dy, stage + 1).wait();
    finish_sending();
    world.compute(fmt::format("B{}", i), 200);
    gradient = 0;
    for (std::size_t k = 0; k < size; ++k) gradient += x[k] * dy[k];
    x.reset();
    if (stage == 0) return;
    for (std::size_t k = 0; k < size; ++k) dy[k] *= weight;
    outgoing = std::move(dy);
    sent = world.send(outgoing, stage - 1);
  };

  // 1F1B: runs as many forward passes in advance as there are stages from here to the last one.
  const int in_flight = std::min(microbatches, last - stage + 1);
  int forwards = 0, backwards = 0;
  while (backwards < microbatches) {
    if (forwards < microbatches && forwards - backwards < in_flight)
      forward(forwards++);
    else
      backward(backwards++);
  }
  finish_sending();
  return gradient;
}

}  // namespace lockstep::exercises
