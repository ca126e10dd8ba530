#pragma once

#include "viz/read/timeline/analysis.h"
#include "viz/read/timeline/visit_band.h"

namespace lockstep {

/// Calls `visit(span)` for each span in which one rank sends a message in a step, including those
/// of collectives. The trace shows no messages within a library's collective (NCCL, MPI).
template <class Visit>
void visit_sends(const Timeline& timeline, const RankTimeline& rank, int step, Visit visit) {
  const StepWindow* window = timeline.find_step(step);
  if (!window) return;
  for (const auto& lane : rank.lanes) {
    visit_band(*lane, Band::action, {window->start, window->end}, [&](const TimelineSpan& span) {
      if (span.step == step && span.bytes > 0 && span.category == Category::communication &&
          span.sends())
        visit(span);
    });
  }
}

}  // namespace lockstep
