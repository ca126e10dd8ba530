#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "core/trace/span.h"

namespace lockstep {

/// An operation on one microbatch on one stage. The letters are PyTorch's.
enum class Op : std::uint8_t {
  forward,          ///< F
  backward,         ///< B: both halves at once
  backward_input,   ///< I: gradient of the input, which the previous stage waits for
  backward_weight,  ///< W: gradient of the parameters, which no other stage waits for
};
char letter(Op op);
Category category(Op op);

struct Action {
  Op op = Op::forward;
  int stage = 0;       ///< the global stage, 0 .. stages - 1
  int microbatch = 0;  ///< 0 .. microbatches - 1
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

/// Returns the placement (ranks) of one stage per rank: stage i on rank i.
std::vector<int> linear_placement(int ranks);

/// Returns a schedule with stage i on rank i and empty action lists, the starting point of
/// generators. Throws ScheduleError for fewer than one stage or microbatch.
Schedule one_stage_per_rank(std::string name, int stages, int microbatches);

/// Throws ScheduleError naming the first fault found: an action that is out of range, missing,
/// duplicated or on the wrong rank; B as well as I or W for the same stage and microbatch; a
/// backward before its forward or a weight gradient before its input gradient; or a deadlock, as a
/// cycle of actions that wait for each other. Any microbatch order is valid, but all lessons run
/// backwards in ascending order, which gives the same bits. Linear in the number of actions.
void validate(const Schedule& schedule);

/// Returns the peak number of live microbatches on `rank`, summed over its stages, for a valid
/// schedule: a forward adds one; the end of its backward (B, or W after I) removes it.
int peak_live_microbatches(const Schedule& schedule, int rank);

/// Writes PyTorch's CSV format: one row per rank, one cell per action, such as `0F3`.
std::string to_csv(const Schedule& schedule);
/// Reads the CSV format of PyTorch's pipelining. Skips empty cells (idle time) and actions that are
/// implicit here: messages (SEND_F, RECV_F, SEND_B, RECV_B) and whole-stage actions (UNSHARD,
/// RESHARD, REDUCE_GRAD). Reads `(0F7;7B3)OVERLAP_F_B` as 0F7 followed by 7B3. Ignores empty rows
/// at the end. Counts stages and microbatches, and places a stage on the first rank that uses it.
/// The result may still be invalid; call validate(). Throws ScheduleError naming row, column (both
/// from 1) and cell.
Schedule schedule_from_csv(const std::string& csv, std::string name = "csv");

}  // namespace lockstep
