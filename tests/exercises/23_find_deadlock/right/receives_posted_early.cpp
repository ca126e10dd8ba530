#include <deque>
#include <optional>

#include "exercises/23_find_deadlock/task.h"

namespace lockstep::exercises {

namespace {

struct Pass {
  bool forward = true;
  int microbatch = 0;
};

}  // namespace

// Posts the receive of the next pass before it waits for the send of this one.
float train_step(World& world, float weight, std::span<const float> batch, int microbatches,
                 std::size_t size) {
  const int stage = world.rank(), last = world.size() - 1;
  std::deque<Pass> passes;
  int forwards = 0, backwards = 0;
  while (backwards < microbatches) {
    if (forwards < microbatches && forwards - backwards <= last - stage)
      passes.push_back({true, forwards++});
    else
      passes.push_back({false, backwards++});
  }

  std::vector<Buffer> inputs(static_cast<std::size_t>(microbatches));
  Buffer arriving;
  std::optional<Work> receiving;
  const auto post = [&](const Pass& pass) {
    const int from = pass.forward ? stage - 1 : stage + 1;
    if (from < 0 || from > last) return;
    arriving = world.allocate(size);
    receiving = world.receive(arriving, from);
  };
  post(passes.front());

  float gradient = 0;
  while (!passes.empty()) {
    const Pass pass = passes.front();
    passes.pop_front();
    if (receiving) receiving->wait();
    receiving.reset();
    Buffer now = std::move(arriving);
    arriving = Buffer{};
    if (!passes.empty()) post(passes.front());

    Buffer& x = inputs[static_cast<std::size_t>(pass.microbatch)];
    Buffer out;
    int to = -1;
    if (pass.forward) {
      if (stage == 0) {
        now = world.allocate(size);
        const auto first = static_cast<std::size_t>(pass.microbatch) * size;
        for (std::size_t k = 0; k < size; ++k) now[k] = batch[first + k];
      }
      x = std::move(now);
      world.compute(fmt::format("F{}", pass.microbatch), 100);
      if (stage < last) {
        out = world.allocate(size);
        for (std::size_t k = 0; k < size; ++k) out[k] = weight * x[k];
        to = stage + 1;
      }
    } else {
      if (stage == last) {
        now = world.allocate(size);
        for (std::size_t k = 0; k < size; ++k) now[k] = weight * x[k];
      }
      world.compute(fmt::format("B{}", pass.microbatch), 200);
      for (std::size_t k = 0; k < size; ++k) gradient += x[k] * now[k];
      for (std::size_t k = 0; k < size; ++k) now[k] *= weight;
      x.reset();
      if (stage > 0) {
        out = std::move(now);
        to = stage - 1;
      }
    }
    if (to >= 0) world.send(out, to).wait();
  }
  return gradient;
}

}  // namespace lockstep::exercises
