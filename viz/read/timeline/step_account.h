#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "viz/read/timeline/analysis.h"

namespace lockstep {

// Where a step's time goes: each rank's step, in disjoint parts that add up to it. The report, the
// viewer, its comparison and its exports all take these figures from here.

/// What a rank does at one point in time of its step.
enum class StepPart : std::uint8_t {
  compute,    ///< the compute lane works, except in the optimizer
  optimizer,  ///< it works in the optimizer
  // Exposed communication: the compute lane waits for a message or a collective, and
  transfer,   ///< its bytes arrive or, if nothing is in flight to the rank, leave the rank
  latency,    ///< a message to the rank is in flight, but no bytes arrive (α)
  late_peer,  ///< no message is in flight: a peer has posted neither its send nor its receive yet
  // Bubble: the compute lane waits for the result of another stage, which is not computed yet, and
  cool_down,  ///< no rank has begun this step's actions: the pipeline drains from the step before
  warm_up,    ///< the rank has not run an action of this step: the pipeline fills
  waiting,    ///< the rank has run an action of this step
  other,      ///< none of these; on the wall clock, the host's time
};
constexpr int step_part_count = 9;
/// Returns "compute", "optimizer", "transfer", "latency", "late peer", "cool-down"...
const char* name_of(StepPart part);
constexpr bool is_exposed(StepPart part) {
  return part == StepPart::transfer || part == StepPart::latency || part == StepPart::late_peer;
}
constexpr bool is_bubble(StepPart part) {
  return part == StepPart::cool_down || part == StepPart::warm_up || part == StepPart::waiting;
}

/// An interval of a rank's step that belongs to a single StepPart.
struct StepPiece {
  Interval time{};
  StepPart part = StepPart::other;
  int axis = -1;  ///< of exposed communication: index in StepAccount::axes
  // Of a bubble: the action whose result the rank waits for, or -1.
  int stage = -1;
  int microbatch = -1;
  Category category = Category::kernel;
  bool operator==(const StepPiece&) const = default;
};

/// Exposed communication on one axis.
struct Exposed {
  Picoseconds transfer = 0, latency = 0, late_peer = 0;
  Picoseconds sum() const { return plus(plus(transfer, latency), late_peer); }
  Exposed& operator+=(const Exposed& other);
  bool operator==(const Exposed&) const = default;
};

/// The lengths of a rank's pieces, by part, and the rest of StepAccount::length. They add up to
/// StepAccount::length.
struct StepSums {
  Picoseconds compute = 0, optimizer = 0;
  std::vector<Exposed> axes;  ///< parallel to StepAccount::axes
  /// Cool-down includes the time after the rank's own step until the last pipeline action of the
  /// step on any rank. This may be the cool-down at the beginning of the rank's next step, too:
  /// sums of consecutive steps can overlap.
  Picoseconds cool_down = 0, warm_up = 0, waiting = 0;
  Picoseconds other = 0;
  Picoseconds ended = 0;  ///< after the rank's step, without cool-down

  Exposed exposed() const;  ///< on all axes
  Picoseconds bubble() const { return plus(plus(cool_down, warm_up), waiting); }
  Picoseconds total() const;
  void add(const StepPiece& piece);
  StepSums& operator+=(const StepSums& other);
  bool operator==(const StepSums&) const = default;
};

/// A rank's step lasts from the beginning to the end of its step span: from the end of its previous
/// step to the end of its last work, optimizer and collectives included. In a trace without step
/// spans, it lasts from the rank's first start to its last end on the compute lane or, if another
/// tool wrote the trace, on any lane.
struct RankAccount {
  int rank = 0;
  Interval time{};
  std::vector<StepPiece> pieces;  ///< in order; they cover `time` without gaps
  StepSums sums;
  /// By axis: how long the step's messages are on the rank's lanes, and how much of that time
  /// compute hides. Messages on different axes may move at the same time.
  std::vector<Overlap> overlaps;
};

/// Where a step's time goes.
struct StepAccount {
  int step = -1;
  Picoseconds length = 0;  ///< of the step, on the rank on which it takes longest
  /// The axes of communication: names of groups, such as "tp" or "dp_cp", and "pp" for the messages
  /// between pipeline stages. Sorted by the exposed time on all ranks, the longest first.
  std::vector<std::string> axes{};
  std::vector<RankAccount> ranks{};  ///< in timeline order, without ranks that lack the step

  const RankAccount* find(int rank) const;
  StepSums sum() const;                     ///< over the ranks
  Overlap overlap(std::size_t axis) const;  ///< over the ranks
};

/// Returns where a step's time goes; without ranks if the timeline has no such step.
///
/// A wait counts for the group whose collective or message it awaits, and only the messages on this
/// group's lanes determine its part; between pipeline stages, only those on the lane of the awaited
/// message, once that message has been sent. A message that a late message on the same lane holds
/// up counts as in flight only after the late one has arrived. On the wall clock, receive spans
/// include α, so α counts as transfer, and a send whose receiver is not ready moves no bytes. The
/// trace shows no messages within a library's collective (NCCL, MPI), so all its time counts as
/// transfer. Traces from other tools have no waits; in such traces, a rank waits whenever it
/// communicates without computing.
StepAccount step_account(const Timeline& timeline, int step);

/// Returns axes in the order that a StepAccount uses: by exposed time in `sum`, longest first.
std::vector<std::string> sorted_axes(const std::vector<std::string>& axes, const StepSums& sum);

/// The parts of a range of time on one rank, which may include several steps. Time in no step is
/// left out.
StepSums sums_within(const StepAccount& account, const RankAccount& rank, const Interval& range);

}  // namespace lockstep
