#pragma once

#include <cstdint>
#include <vector>

#include "core/pipeline/schedule.h"
#include "core/time/cluster.h"

namespace lockstep {

/// How long each action of one microbatch takes on one stage.
struct StageTimes {
  Picoseconds forward = 0;
  Picoseconds backward = 0;         ///< full backward (B)
  Picoseconds backward_input = 0;   ///< of I
  Picoseconds backward_weight = 0;  ///< of W
  Picoseconds of(Op op) const;
};

/// The inputs of a simulation. `stages` has one entry per stage. `boundary_bytes` is the size of
/// one microbatch's message across a stage boundary, equal in both directions (b s h elements).
struct PipelineTimes {
  std::vector<StageTimes> stages;
  std::int64_t boundary_bytes = 0;
  Cluster cluster;  ///< only its links are used
  /// The world rank of each pipeline rank; empty if the two are always equal.
  std::vector<int> world_ranks{};
  /// The duration of each action, parallel to Schedule::actions. Unless empty, replaces the times
  /// in `stages`.
  std::vector<std::vector<Picoseconds>> durations{};
};

/// An action's interval on the modelled clock.
struct TimedAction {
  Picoseconds start = 0;
  Picoseconds end = 0;
};

/// One activation (forward) or gradient (backward) sent between two ranks. It occupies the sender's
/// lane from `start` to `sent`, and the receiver's lane from `arrived - (sent - start)` to
/// `arrived`.
struct TimedMessage {
  int from_rank = 0;
  int to_rank = 0;
  int stage = 0;  ///< the stage that produced it
  int microbatch = 0;
  bool forward = true;
  Picoseconds start = 0;
  Picoseconds sent = 0;
  Picoseconds arrived = 0;
};

/// The simulated times of a schedule.
struct Simulation {
  std::vector<std::vector<TimedAction>> actions;  ///< parallel to Schedule::actions
  /// All messages, if requested, sorted by sending rank; each rank's messages are in its program
  /// order.
  std::vector<TimedMessage> messages;
  Picoseconds makespan = 0;  ///< from the first start to the last end
  /// The fraction of the makespan in which a rank runs no action, averaged over all ranks.
  double bubble = 0;
  /// The bubble as the zero-bubble paper defines it (Qi 2023, Table 5): the idle fraction of the
  /// rank whose own window (from its first start to its last end) is the longest; ties go to the
  /// lowest rank. Equals (cost - work) / cost, with work = m (T_F + T_B + T_W) for one stage per
  /// rank.
  double internal_bubble = 0;
};

/// Simulates a schedule by the rules of modelled time (core/time/README.md): an action
/// starts when its rank is free and its input has arrived; a message starts when its data and the
/// sender's lane are ready, occupies that lane for β · bytes, and arrives α later, but no sooner
/// than β · bytes after the receiver's lane became free. Each pair of ranks has one lane per
/// direction and kind (activations, gradients). Nothing is sent between two stages of one rank. A
/// joined forward and backward start once both inputs have arrived, run one after the other, and
/// both results are ready when the backward ends.
/// Takes time linear in the number of actions. Throws ScheduleError if validate() would, or if the
/// times do not fit the schedule.
Simulation simulate(const Schedule& schedule, const PipelineTimes& times,
                    bool record_messages = false);

/// Simulates the beginning of a schedule, in which each rank may stop after any action. The times
/// are those of the same actions in any complete schedule that begins so; the bubble covers the
/// time up to the last end. Throws ScheduleError if check_beginning() would, or for a deadlock.
Simulation simulate_beginning(const Schedule& beginning, const PipelineTimes& times,
                              bool record_messages = false);

}  // namespace lockstep
