#pragma once

#include <cstdint>

#include "tests/viz/sample_run.h"
#include "viz/read/timeline/timeline.h"

namespace lockstep {

/// A step of two ranks, from `begin` µs on: tensor parallelism in the forward pass, and then data
/// parallelism. In µs:
///
///   rank 0   forward 0-10   wait tp 10-14   backward 14-30   wait dp 30-50   optimizer 50-54
///   rank 1   forward 0-12   wait tp 12-14   backward 14-30   wait dp 30-40   optimizer 40-44
///
/// For tp, rank 0 sends from 10 to 11 and then waits 1 for a late peer: rank 1 sends from 12 to 13.
/// Both messages arrive from 13 to 14, after a latency. For dp, rank 0 waits 1 for the latency and
/// 19 for the transfer, and rank 1 waits only 10 for the transfer. The step takes 54; on rank 1 it
/// ends 10 earlier.
inline void add_worked_step(Timeline& timeline, int step = 0, Picoseconds begin = 0) {
  timeline.run().clock = "modelled";
  timeline.run().ranks = 2;
  timeline.run().mesh = {{"dp", 2}, {"tp", 2}};
  const auto add = [&](int rank, int tid, Category category, Picoseconds start, Picoseconds end,
                       const char* name, const char* group = "", std::int64_t bytes = -1) {
    TimelineSpan span{.start = (begin + start) * us,
                      .end = (begin + end) * us,
                      .bytes = bytes,
                      .name = timeline.intern(name),
                      .step = step,
                      .sequence = *group == 0 ? -1 : step,
                      .group = timeline.intern(group)};
    span.category = category;
    timeline.add(rank, tid, span);
  };
  const auto send = [&](std::uint64_t id, int rank, const char* group, int lane, Interval sent,
                        Interval received) {
    add(rank, lane, Category::communication, sent.start, sent.end, "all_reduce", group, 100);
    add(1 - rank, lane + 1, Category::communication, received.start, received.end, "all_reduce",
        group, 100);
    const auto message = static_cast<std::uint64_t>(step) * 10 + id;
    timeline.flow_start(message, rank, lane, (begin + sent.start) * us);
    timeline.flow_end(message, 1 - rank, lane + 1, (begin + received.end) * us);
  };
  for (int rank = 0; rank < 2; ++rank) {
    const Picoseconds forward = rank == 0 ? 10 : 12, reduced = rank == 0 ? 50 : 40;
    add(rank, 0, Category::forward, 0, forward, "forward");
    add(rank, 0, Category::wait, forward, 14, "all_reduce", "tp");
    add(rank, 0, Category::backward, 14, 30, "backward");
    add(rank, 0, Category::wait, 30, reduced, "all_reduce", "dp");
    add(rank, 0, Category::optimizer, reduced, reduced + 4, "AdamW");
    add(rank, 0, Category::step, 0, reduced + 4, "step");
  }
  send(1, 0, "tp", 1, {10, 11}, {13, 14});
  send(2, 1, "tp", 1, {12, 13}, {13, 14});
  send(3, 0, "dp", 3, {30, 40}, {30, 40});
  send(4, 1, "dp", 3, {30, 49}, {31, 50});
  timeline.settle();
}

}  // namespace lockstep
