#pragma once

#include <algorithm>
#include <optional>

#include "core/trace/pipeline_analysis.h"

namespace lockstep::viz {

/// What the user turned on. Every control changes one of these, so that tests can read it.
struct ViewState {
  bool critical_path = false;
};

/// The chain of the selected action, kept until another action is selected.
struct SelectedChain {
  int rank = -1;
  int step = -1;
  Picoseconds start = 0;
  std::optional<DataChain> chain{};

  /// Returns whether an action of `step` is on the chain. Spans of other steps are not.
  bool has(int of_rank, const TimelineSpan& span) const {
    const auto is = [&](const PathLink& link) {
      return link.rank == of_rank && link.time == Interval{span.start, span.end};
    };
    return chain &&
           (is(chain->action) || std::ranges::any_of(chain->before, is) ||
            std::ranges::any_of(chain->after, is) ||
            std::ranges::any_of(chain->updates, [&](const DataChain::Update& update) {
              return update.rank == of_rank && update.time == Interval{span.start, span.end};
            }));
  }
};

}  // namespace lockstep::viz
