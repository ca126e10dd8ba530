#pragma once

#include <optional>
#include <string>

#include "viz/read/timeline/timeline.h"

namespace lockstep::testing {

/// A hand-written timeline, in whole microseconds.
class HandWritten {
 public:
  /// Adds a pipeline action of one microbatch; the stage is the rank, unless `stage` names it.
  HandWritten& action(int rank, Category category, int microbatch, int start, int end, int step = 0,
                      std::optional<int> stage = {}) {
    return add(rank, "PP:", category, stage.value_or(rank), microbatch, start, end, step);
  }
  HandWritten& forward(int rank, int microbatch, int start, int end, int step = 0) {
    return action(rank, Category::forward, microbatch, start, end, step);
  }
  HandWritten& backward(int rank, int microbatch, int start, int end, int step = 0) {
    return action(rank, Category::backward, microbatch, start, end, step);
  }
  /// Adds a span that is not a pipeline action.
  HandWritten& stretch(int rank, const std::string& name, Category category, int start, int end,
                       int step = 0) {
    return add(rank, name, category, -1, -1, start, end, step);
  }
  const Timeline& done() {
    timeline_.settle();
    return timeline_;
  }

 private:
  static constexpr Picoseconds us = 1'000'000;

  HandWritten& add(int rank, const std::string& name, Category category, int stage, int microbatch,
                   int start, int end, int step) {
    TimelineSpan span;
    span.name = timeline_.intern(name);
    span.category = category;
    span.stage = stage;
    span.microbatch = microbatch;
    span.start = start * us;
    span.end = end * us;
    span.step = step;
    timeline_.add(rank, 0, span);
    return *this;
  }

  Timeline timeline_;
};

}  // namespace lockstep::testing
