#pragma once

#include <cstdint>
#include <vector>

#include "core/pipeline/schedule.h"
#include "core/time/cluster.h"

namespace lockstep {

/// What one microbatch costs on one stage.
struct StageTimes {
  Picoseconds forward = 0;
  Picoseconds backward = 0;         ///< of a full backward (B)
  Picoseconds backward_input = 0;   ///< of I
  Picoseconds backward_weight = 0;  ///< of W
  Picoseconds of(Op op) const;
};

/// What a schedule is timed with. `stages` has one entry per stage; `boundary_bytes` is what one
/// microbatch sends over a stage boundary, the same in both directions (b s h elements).
struct PipelineTimes {
  std::vector<StageTimes> stages;
  std::int64_t boundary_bytes = 0;
  Cluster cluster;  ///< for the links
  /// The rank of the whole run that each pipeline rank is; empty if they are the same.
  std::vector<int> world_ranks{};
  /// What each action takes, parallel to Schedule::actions, in the place of `stages`' times: where
  /// it was observed one by one. Empty otherwise.
  std::vector<std::vector<Picoseconds>> durations{};
};

/// Where an action lies on the modelled clock.
struct TimedAction {
  Picoseconds start = 0;
  Picoseconds end = 0;
};

/// One activation (forward) or gradient (backward) on its way between two ranks. The sender's lane
/// is held from `start` to `sent`; the receiver's from `arrived - (sent - start)` to `arrived`.
struct TimedMessage {
  int from_rank = 0;
  int to_rank = 0;
  int stage = 0;  ///< the stage that made it
  int microbatch = 0;
  bool forward = true;
  Picoseconds start = 0;
  Picoseconds sent = 0;
  Picoseconds arrived = 0;
};

struct Simulation {
  std::vector<std::vector<TimedAction>> actions;  ///< parallel to Schedule::actions
  /// Only where asked for: by sending rank, and then in its program order.
  std::vector<TimedMessage> messages;
  Picoseconds makespan = 0;  ///< from the first start to the last end
  /// The share of rank-time, over all ranks and the makespan, in which no action runs.
  double bubble = 0;
  /// The zero-bubble paper's figure (Qi 2023, Table 5): of the longest of the ranks' own windows
  /// (last end - own first start; the lowest rank's, where some are equal), the share in which that
  /// rank runs nothing: (cost - work) / cost with work = m (T_F + T_B + T_W) for one stage a rank.
  double internal_bubble = 0;
};

/// Times a schedule by the rules of modelled time (DESIGN §4): an action starts when its rank
/// is free and its input has arrived; a message starts when its data and the sender's lane are
/// ready, holds that lane for β · bytes, and has arrived α after that, but no sooner than β · bytes
/// after the receiver's lane was free. Each pair of ranks has a lane per direction and kind
/// (activations, gradients). Between two stages of one rank nothing is sent. Linear in the number
/// of actions. Throws ScheduleError for what validate() would, and for times that don't fit.
Simulation simulate(const Schedule& schedule, const PipelineTimes& times,
                    bool record_messages = false);

}  // namespace lockstep
