#pragma once

#include <fmt/format.h>

#include "core/base/print.h"
#include "core/run/lesson.h"

namespace lockstep {

/// Measures a whole training, because its steps may differ: the time from its first step to its
/// last, and the bytes that this rank sends.
class WholeRun {
 public:
  explicit WholeRun(Rank& rank)
      : start_(rank.compute.now()), before_(rank.transport->bytes_sent()) {}

  /// On rank 0, prints the figures and adds them to the report. Call it after the last step.
  void report(Lesson& lesson, Rank& rank) const {
    if (rank.id != 0) return;
    const double time = seconds(rank.compute.now() - start_);
    const BytesSent sent = rank.transport->bytes_sent();
    const auto of = [&](Operation operation) { return sent[operation] - before_[operation]; };
    const std::int64_t bytes = of(Operation::all_reduce) + of(Operation::send);
    lesson.add_to_report(rank, "whole_run",
                         fmt::format(R"({{"seconds": {:.12f}, "bytes_sent": {}}})", time, bytes));
    if (lesson.options().output.quiet) return;
    fmt::print("whole run: rank 0 trains for {:.3f} ms of {} time, and sends {:.1f} kB\n",
               time * 1e3, rank.clock.name(), static_cast<double>(bytes) / 1e3);
  }

 private:
  Picoseconds start_;
  BytesSent before_;
};

}  // namespace lockstep
