#pragma once

#include <fmt/format.h>

#include "core/comm/group.h"
#include "core/device/device.h"

namespace lockstep {

/// Progress of a ring all-reduce: `done` of `steps` steps, in one of its two halves.
struct RingStep {
  const char* half = "reduce_scatter";  ///< or "all_gather"
  int done = 0;
  int steps = 0;
};

/// Sums `data` (n f32 elements) over the members of `ring`, in place, bitwise identically on all
/// members (Patarasuk and Yuan 2009; in MPI since Thakur, Rabenseifner, Gropp 2005).
///
/// `data` is divided into N chunks. In every step, every rank sends one chunk to its right
/// neighbour and receives another from its left one, all at the same time:
///
///   reduce-scatter, N - 1 steps: each rank adds the incoming chunk to its own. Chunk i starts at
///   rank i + 1, collects a contribution at each stop, and is complete at rank i, its last stop.
///
///   all-gather, N - 1 steps: the complete chunks travel around once more, and are only copied.
///
/// Time, if a message takes α + β · bytes: 2(N-1)(α + ⌈n/N⌉β); additions cost nothing on the
/// modelled clock, as in Group. Each rank sends 2n elements minus the two chunks that it never
/// sends (see elements_sent()). Memory: scratch for one incoming chunk. (Group::all_reduce adds in
/// the same order, so its result is bitwise identical. If it can, it adds directly from the peer's
/// buffer, without scratch memory.)
///
/// Calls `seen(RingStep)` on each rank before the first step and after every step.
template <class Seen>
void ring_all_reduce(Group& ring, Device device, View data, Seen seen) {
  const int N = ring.size();
  const int me = ring.rank();
  const int right = (me + 1) % N;
  const int left = (me + N - 1) % N;
  const auto number = [N](int i) { return (i % N + N) % N; };
  const auto chunk = [&](int i) { return ring.chunk(data, number(i)); };

  Tensor scratch;  // the first chunks are the longest
  if (N > 1) scratch = Tensor{device.memory, {chunk(0).elements()}, MemoryCategory::communication};

  // Runs one step as a span of the timeline, with its bytes and its peer.
  const auto step = [&](const RingStep& now, const std::string& what, View out, auto work) {
    const std::string name = fmt::format("{} {}/{}: {}", now.half, now.done, now.steps, what);
    device.compute.range({.name = device.compute.trace().keep(name),
                          .category = Category::communication,
                          .peer = ring.world_rank(right),
                          .bytes = static_cast<std::int64_t>(out.bytes()),
                          .group_size = N,
                          .algorithm = "ring"},
                         work);
    seen(now);
  };

  seen(RingStep{.half = "reduce_scatter", .steps = N - 1});

  for (int k = 0; k < N - 1; ++k) {
    const int adds = number(me - k - 2);
    const View out = chunk(me - k - 1);
    const View sum = chunk(adds);
    const View in = slice(scratch, 0, sum.elements());
    step({"reduce_scatter", k + 1, N - 1}, fmt::format("adds to chunk {}", adds), out, [&] {
      // Start both before waiting. If every rank waited for its send, none would ever receive.
      Work sent = ring.send(out, right);
      Work received = ring.receive(in, left);
      received.wait();
      if (sum)  // the meta device has no elements to add
        device.compute.kernels().add(device.compute.queue(), sum, in, sum);
      sent.wait();
    });
  }

  // Chunk `me` is now complete here. Each step forwards the chunk received last.
  for (int k = 0; k < N - 1; ++k) {
    const int takes = number(me - k - 1);
    const View out = chunk(me - k);
    const View in = chunk(takes);
    step({"all_gather", k + 1, N - 1}, fmt::format("takes chunk {}", takes), out, [&] {
      Work sent = ring.send(out, right);
      Work received = ring.receive(in, left);
      received.wait();
      sent.wait();
    });
  }
}

/// The same all-reduce without a callback.
inline void ring_all_reduce(Group& ring, Device device, View data) {
  ring_all_reduce(ring, device, data, [](const RingStep&) {});
}

}  // namespace lockstep
