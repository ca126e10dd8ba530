#pragma once

#include <cstdint>
#include <limits>
#include <optional>
#include <set>
#include <vector>

#include "core/pipeline/schedule.h"
#include "core/time/interval.h"
#include "viz/read/timeline/timeline.h"

namespace lockstep {

// This file, step_account.h and pipeline_analysis.h are the only places where timeline metrics are
// defined. Sums are in whole picoseconds; fractions are computed last.

/// Returns the union of the intervals, without empty ones, as the other functions require it.
Intervals merged(std::vector<Interval> intervals);
/// Returns the intervals that are in both `a` and `b`. Runs in linear time.
Intervals intersection(const Intervals& a, const Intervals& b);
/// Returns the intervals that are in `a` but not in `b`. Runs in linear time.
Intervals difference(const Intervals& a, const Intervals& b);
Picoseconds length(const Intervals& intervals);

/// Returns the pipeline actions that a rank ran in a step, in order.
std::vector<TimelineSpan> actions_of(const Timeline& timeline, const RankTimeline& rank, int step);

/// Returns the stages whose actions a rank ran in a step.
std::set<int> stages_of(const Timeline& timeline, const RankTimeline& rank, int step);

/// A step's pipeline actions as a schedule, and their times. Ranks without actions are left out,
/// and so is recomputation.
struct ExecutedStep {
  Schedule schedule;                               ///< named "observed"; not checked
  std::vector<std::vector<TimelineSpan>> actions;  ///< parallel to Schedule::actions
};
/// Reads the actions of these ranks of the run (empty: of all).
ExecutedStep executed_step(const Timeline& timeline, int step, const std::vector<int>& ranks = {});

/// Returns the intervals in which one rank ran pipeline actions in a step.
Intervals pipeline_actions(const Timeline& timeline, const RankTimeline& rank, int step);

/// A window of time on one or more ranks, and the time within the window during which the ranks
/// were busy.
struct Bubble {
  Picoseconds window = 0;  ///< per rank
  Picoseconds busy = 0;    ///< summed over `ranks`
  int ranks = 0;
  Picoseconds idle() const;
  /// Returns idle / (window · ranks), or 0 for an empty window.
  double share() const;
};

/// Returns the bubble of a step: the fraction of the ranks' time during which no pipeline action is
/// running. The window extends from the first start to the last end of the step's pipeline actions,
/// over all ranks. A rank without any takes no part in the step, so its time does not count. Empty
/// if the step has no pipeline actions.
std::optional<Bubble> bubble(const Timeline& timeline, int step);

/// Returns the bubble of one rank. Its window extends from the first start to the last end of that
/// rank's own pipeline actions.
std::optional<Bubble> internal_bubble(const Timeline& timeline, int step, int rank);

/// Returns the bubble as the zero-bubble paper defines it (Qi 2023, Table 5): (cost - work) / cost.
/// This is the internal bubble of the rank with the longest window, because that window's length is
/// the cost.
std::optional<Bubble> internal_bubble(const Timeline& timeline, int step);

/// Overlap of communication with compute; intervals are merged first, as in HolisticTraceAnalysis.
struct Overlap {
  Picoseconds communication = 0;  ///< |communication|
  Picoseconds hidden = 0;         ///< |communication ∩ compute|
  /// Returns hidden / communication, or 0 if there is no communication.
  double share() const;
  bool operator==(const Overlap&) const = default;
};

/// Returns the intervals of one rank's communication spans in `step` (negative: all steps).
Intervals communication(const Timeline& timeline, const RankTimeline& rank, int step = -1);
/// Returns the intervals in which one rank computed. They are the rank's forward, backward (full or
/// half), recompute, optimizer and kernel spans that touch `window`, each at its full length, minus
/// the waits on the rank's compute lane. For example, a forward pass that is waiting for an
/// all-reduce does not count as computing.
Intervals computation(const RankTimeline& rank, const Interval& window);

/// Returns one rank's overlap. Compute of any step can hide a step's communication.
Overlap communication_overlap(const Timeline& timeline, const RankTimeline& rank, int step = -1);
/// Returns the overlap summed over all ranks.
Overlap communication_overlap(const Timeline& timeline, int step = -1);

/// Returns the time from a rank's first start to its last end in a step, or nothing if the rank has
/// no spans of that step. In a pipeline, the ranks' steps overlap only partly: the last rank begins
/// its next step before the first rank has finished.
std::optional<Interval> step_of_rank(const Timeline& timeline, const RankTimeline& rank, int step);

/// Returns the bytes of the messages that one rank sent in a step, including those of collectives.
/// The trace shows no messages within a library's collective (NCCL, MPI).
std::int64_t bytes_sent(const Timeline& timeline, const RankTimeline& rank, int step);

/// Returns the memory sample with the highest total in a step of the rank, or nothing if the rank
/// reports no memory. Samples are taken between spans, so the peak within a span may be higher.
std::optional<MemorySample> memory_peak(const Timeline& timeline, const RankTimeline& rank,
                                        int step);

}  // namespace lockstep
