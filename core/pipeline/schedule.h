#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "core/base/span.h"

namespace lockstep {

/// An operation on one microbatch on one stage. The letters are PyTorch's.
enum class Op : std::uint8_t {
  forward,          ///< F
  backward,         ///< B: both halves at once
  backward_input,   ///< I: gradient of the input; the previous stage waits for it
  backward_weight,  ///< W: gradient of the parameters; no other stage waits for it
};
char letter(Op op);
Category category(Op op);

/// One operation of a schedule.
struct Action {
  Op op = Op::forward;
  int stage = 0;       ///< the global stage, 0 .. stages - 1
  int microbatch = 0;  ///< 0 .. microbatches - 1
  /// Joins this forward with the next action of the rank, a backward: both start together, once
  /// both inputs have arrived, and send their results when both are done.
  bool with_next = false;
  bool operator==(const Action&) const = default;
};
/// Formats an action as stage, letter, microbatch: "0F3".
std::string to_string(const Action& action);

/// A pipeline schedule as data: each rank's actions in order. The lessons generate schedules; this
/// folder validates, simulates and executes them, and converts them to and from CSV.
struct Schedule {
  std::string name;
  int ranks = 0;
  int stages = 0;
  int microbatches = 0;
  std::vector<int> rank_of_stage;            ///< (stages): the rank of each stage
  std::vector<std::vector<Action>> actions;  ///< (ranks): each rank's actions in order

  std::size_t action_count() const;
};

/// Returns the placement, (ranks), with stage i on rank i.
std::vector<int> linear_placement(int ranks);
/// Returns the placement, (stages), with stage i on rank i mod p: the stages go around the ranks.
std::vector<int> loop_placement(int ranks, int stages);
/// Returns the placement, (2 p), with stages 0 to p - 1 in ascending order of ranks, and p to 2 p -
/// 1 in descending order, so that rank 0 holds the first and the last stage.
std::vector<int> v_placement(int ranks);

/// Returns a schedule with this placement and empty action lists, for generators to fill. It has as
/// many ranks as the placement uses. Throws ScheduleError for fewer than one stage or microbatch.
Schedule empty_schedule(std::string name, std::vector<int> rank_of_stage, int microbatches);
/// Returns an empty schedule with stage i on rank i.
Schedule one_stage_per_rank(std::string name, int stages, int microbatches);

/// Returns the peak number of live microbatches on `rank`, summed over its stages, for a valid
/// schedule. A microbatch is live on a stage from its forward to the end of its backward (B, or W
/// after I).
int peak_live_microbatches(const Schedule& schedule, int rank);

}  // namespace lockstep
