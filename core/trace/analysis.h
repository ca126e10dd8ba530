#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "core/trace/timeline.h"

namespace lockstep {

// This file has the only definition of each timeline metric. Sums are in whole picoseconds;
// fractions are computed last.

/// The time interval [start, end).
struct Interval {
  Picoseconds start = 0;
  Picoseconds end = 0;
  bool operator==(const Interval&) const = default;
};
/// Sorted intervals that neither overlap nor touch, as merged() returns and the other functions
/// require.
using Intervals = std::vector<Interval>;

/// Returns the union; empty intervals are dropped.
Intervals merged(std::vector<Interval> intervals);
/// Returns the time in both `a` and `b`. Linear.
Intervals intersection(const Intervals& a, const Intervals& b);
/// Returns the time in `a` but not in `b`. Linear.
Intervals difference(const Intervals& a, const Intervals& b);
Picoseconds length(const Intervals& intervals);

/// Returns whether a span is a pipeline action: a forward or backward (or either half, or a
/// recomputation) of one microbatch on one stage. It needs such a category, and a stage or a name
/// that starts with "PP:".
bool is_pipeline_action(const Timeline& timeline, const TimelineSpan& span);

/// Returns the intervals in which one rank ran pipeline actions of a step.
Intervals pipeline_actions(const Timeline& timeline, const RankTimeline& rank, int step);

/// A window of time on a number of ranks, and the busy time in it.
struct Bubble {
  Picoseconds window = 0;  ///< of one rank
  Picoseconds busy = 0;    ///< summed over `ranks`
  int ranks = 0;
  Picoseconds idle() const { return window * ranks - busy; }
  /// idle / (window · ranks); 0 for an empty window.
  double share() const;
};

/// Returns the bubble of a step: the fraction of rank-time in which no action runs, from the first
/// start to the last end of its pipeline actions over all ranks of the timeline. Empty if the step
/// has no pipeline actions.
std::optional<Bubble> bubble(const Timeline& timeline, int step);

/// Returns the same for one rank's own window, from its own first start to its own last end.
std::optional<Bubble> internal_bubble(const Timeline& timeline, int step, int rank);

/// Returns the zero-bubble paper's figure (Qi 2023, Table 5): the internal bubble of the rank with
/// the longest window, which determines the cost: (cost - work) / cost.
std::optional<Bubble> internal_bubble(const Timeline& timeline, int step);

/// Overlap of communication with compute; intervals are merged first, as in HolisticTraceAnalysis.
struct Overlap {
  Picoseconds communication = 0;  ///< |communication|
  Picoseconds hidden = 0;         ///< |communication ∩ compute|
  /// hidden / communication; 0 without communication.
  double share() const;
};

/// Returns the intervals of one rank's communication spans in `step` (negative: all steps).
Intervals communication(const Timeline& timeline, const RankTimeline& rank, int step = -1);
/// Returns the intervals in which one rank computed within `window`, taking whole spans that touch
/// it: forward, backward and its halves, recompute, optimizer and kernels, minus the waits of its
/// compute lane (a forward waiting for an all-reduce does not compute).
Intervals computation(const RankTimeline& rank, const Interval& window);

/// Returns one rank's overlap. Compute of any step can hide communication.
Overlap communication_overlap(const Timeline& timeline, const RankTimeline& rank, int step = -1);
/// Returns the sum over ranks.
Overlap communication_overlap(const Timeline& timeline, int step = -1);

/// The breakdown of a step on one rank. The parts are disjoint and nonnegative, and add up to the
/// step:
///
///   step = compute + exposed + idle,   exposed = transfer + latency + late_peer
///
/// Exposed communication is the time in which the compute lane stalls for communication, i.e. its
/// wait spans. Within it:
///   - transfer: bytes arrive on one of the rank's lanes (β · bytes on the modelled clock), or
///     leave on one while no message to the rank is in flight;
///   - latency: a message to the rank is in flight, but no bytes arrive (α on the modelled clock;
///     on the wall clock, receive spans include α, so it counts as transfer);
///   - late_peer: no message to or from the rank is in flight, because a peer has not sent yet. A
///     message that a late one holds up on the same lane counts as in flight only after the late
///     one has arrived.
/// On the wall clock sends are rendezvous: a send whose receiver is not ready moves no bytes, so it
/// counts as waiting for a late peer. The trace has no messages within a library's collective
/// (NCCL, MPI), so all of its time counts as transfer.
struct StepParts {
  Picoseconds step = 0;  ///< from the first start to the last end over all ranks
  /// See computation(); includes work of any step. On the modelled clock it also includes the time
  /// between named spans, because the host takes no time there.
  Picoseconds compute = 0;
  Picoseconds transfer = 0;
  Picoseconds latency = 0;
  Picoseconds late_peer = 0;
  /// Neither computing nor waiting: before the rank's first work, after its last, and, on the wall
  /// clock, the host's time in between.
  Picoseconds idle = 0;
  Picoseconds exposed() const { return transfer + latency + late_peer; }
  StepParts& operator+=(const StepParts& other);
};

/// Returns the parts of a step, one entry per rank in timeline order; empty if there is no such
/// step. Traces from other tools have no wait spans; there, compute counts as stalled whenever the
/// rank communicates without computing.
std::vector<StepParts> step_parts(const Timeline& timeline, int step);

}  // namespace lockstep
