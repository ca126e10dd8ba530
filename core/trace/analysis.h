#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "core/trace/timeline.h"

namespace lockstep {

// One definition each of what a timeline is judged by. Whole picoseconds inside; a share is a
// quotient of two of them, taken last.

/// A stretch of time, from `start` up to `end`.
struct Interval {
  Picoseconds start = 0;
  Picoseconds end = 0;
  bool operator==(const Interval&) const = default;
};
/// Ascending, neither overlapping nor touching: what merged() returns and the others take.
using Intervals = std::vector<Interval>;

/// The union; intervals of no length vanish.
Intervals merged(std::vector<Interval> intervals);
/// Time that is in both. Linear.
Intervals intersection(const Intervals& a, const Intervals& b);
/// Time that is in `a` and not in `b`. Linear.
Intervals difference(const Intervals& a, const Intervals& b);
Picoseconds length(const Intervals& intervals);

/// A pipeline action is a forward or backward (or either half, or a recomputation) of one
/// microbatch on one stage: of such a category, and with a stage or a name that begins "PP:".
bool is_pipeline_action(const Timeline& timeline, const TimelineSpan& span);

/// When the pipeline actions of a step ran on one rank.
Intervals pipeline_actions(const Timeline& timeline, const RankTimeline& rank, int step);

/// A window of rank-time, and how much of it was filled.
struct Bubble {
  Picoseconds window = 0;  ///< of one rank
  Picoseconds busy = 0;    ///< summed over `ranks`
  int ranks = 0;
  Picoseconds idle() const { return window * ranks - busy; }
  /// idle / (window · ranks); 0 for an empty window.
  double share() const;
};

/// The bubble of a step: from the first start to the last end of its pipeline actions over all
/// ranks of the timeline, the share of rank-time in which no action runs. None where the step has
/// no pipeline actions.
std::optional<Bubble> bubble(const Timeline& timeline, int step);

/// The same of one rank's own window: from its own first start to its own last end.
std::optional<Bubble> internal_bubble(const Timeline& timeline, int step, int rank);

/// The zero-bubble paper's figure (Qi 2023, Table 5): that of the rank whose own window is longest,
/// which sets the cost; (cost - work) / cost.
std::optional<Bubble> internal_bubble(const Timeline& timeline, int step);

/// Communication against compute, intervals merged first (as HolisticTraceAnalysis does).
struct Overlap {
  Picoseconds communication = 0;  ///< |communication|
  Picoseconds hidden = 0;         ///< |communication ∩ compute|
  /// hidden / communication; 0 without communication.
  double share() const;
};

/// When one rank communicated: spans of category communication of `step` (all steps if negative).
Intervals communication(const Timeline& timeline, const RankTimeline& rank, int step = -1);
/// When one rank computed within `window` (whole spans that touch it): forward, backward and its
/// halves, recompute, optimizer and kernels, less the waits of its compute lane (a forward that
/// waits for an all-reduce does not compute then).
Intervals computation(const RankTimeline& rank, const Interval& window);

/// Of one rank. Compute of any step hides communication.
Overlap communication_overlap(const Timeline& timeline, const RankTimeline& rank, int step = -1);
/// Summed over ranks.
Overlap communication_overlap(const Timeline& timeline, int step = -1);

/// How one rank spent a step. The parts are disjoint, none is negative, and they add up to the
/// step:
///
///   step = compute + exposed + idle,   exposed = transfer + latency + late_peer
///
/// Exposed communication is the time in which the compute lane stands still for communication: its
/// wait spans. While it stands still,
///   - transfer: bytes arrive on one of the rank's lanes (β · bytes on the modelled clock), or
///     leave on one while nothing is on its way to the rank;
///   - latency: a message to the rank is in flight, but no bytes arrive (α on the modelled clock;
///     measured receive spans contain α, so on the wall clock it counts as transfer);
///   - late_peer: nothing is on its way to the rank or from it: a peer has not sent yet.
/// On the wall clock sends are rendezvous: a send whose receiver has not come moves no bytes, so
/// it is waiting for a late peer. Within a library's collective (NCCL, MPI) the trace has no
/// messages, and all its time is transfer.
struct StepParts {
  Picoseconds step = 0;  ///< from its first start to its last end over all ranks
  /// See computation(); work of any step. On the modelled clock also what a rank does between its
  /// named stretches, since the host takes no time there.
  Picoseconds compute = 0;
  Picoseconds transfer = 0;
  Picoseconds latency = 0;
  Picoseconds late_peer = 0;
  /// Neither computes nor waits: before the rank's first work, after its last, and, on the wall
  /// clock, the host's time between the two.
  Picoseconds idle = 0;
  Picoseconds exposed() const { return transfer + latency + late_peer; }
  StepParts& operator+=(const StepParts& other);
};

/// The parts of a step, one entry per rank in the timeline's order; empty if there is no such step.
/// In a trace of others, which has no wait spans, compute is taken to stand still for communication
/// whenever the rank communicates and does not compute.
std::vector<StepParts> step_parts(const Timeline& timeline, int step);

}  // namespace lockstep
