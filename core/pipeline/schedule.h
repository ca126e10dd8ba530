#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "core/trace/span.h"

namespace lockstep {

/// What a pipeline does with one microbatch on one stage. The letters are PyTorch's.
enum class Op : std::uint8_t {
  forward,          ///< F
  backward,         ///< B: both halves at once
  backward_input,   ///< I: the gradient of the input, which the stage before waits for
  backward_weight,  ///< W: the gradient of the parameters, which nobody waits for
};
char letter(Op op);
Category category(Op op);

struct Action {
  Op op = Op::forward;
  int stage = 0;       ///< the global stage, 0 .. stages - 1
  int microbatch = 0;  ///< 0 .. microbatches - 1
  bool operator==(const Action&) const = default;
};
/// "0F3": stage, letter, microbatch.
std::string to_string(const Action& action);

/// A pipeline schedule is data: what each rank does, in which order. Generators are lessons; here
/// it is validated, simulated, executed, and written as CSV.
struct Schedule {
  std::string name;
  int ranks = 0;
  int stages = 0;
  int microbatches = 0;
  std::vector<int> rank_of_stage;            ///< (stages): where each stage lives
  std::vector<std::vector<Action>> actions;  ///< (ranks): each rank's actions in order

  std::size_t action_count() const;
};

/// (ranks): the placement of one stage per rank, stage i on rank i.
std::vector<int> linear_placement(int ranks);

/// One stage a rank, stage i on rank i, with empty lists of actions: where generators begin. Throws
/// ScheduleError for fewer than one stage or microbatch.
Schedule one_stage_per_rank(std::string name, int stages, int microbatches);

/// Throws ScheduleError naming one thing that is wrong: an action that is out of range, missing,
/// doubled or on the wrong rank; B beside I or W for the same stage and microbatch; a backward
/// before its forward or a weight gradient before its input gradient; or a deadlock, as the cycle
/// of actions that wait for one another. The order of microbatches is free, though all schedules of
/// the lessons run backwards in ascending order, for the same bits. Linear in the number of
/// actions.
void validate(const Schedule& schedule);

/// The most microbatches that `rank` remembers at once when it follows the valid schedule, summed
/// over its stages: a forward adds one, the end of its backward (B, or W after I) takes one away.
int peak_live_microbatches(const Schedule& schedule, int rank);

/// PyTorch's grammar: a row per rank, a cell per action, `0F3`.
std::string to_csv(const Schedule& schedule);
/// Reads what PyTorch's pipelining writes. Empty cells are idle time and skipped, as is what goes
/// without saying here: messages (SEND_F, RECV_F, SEND_B, RECV_B) and the actions of a whole stage
/// (UNSHARD, RESHARD, REDUCE_GRAD). `(0F7;7B3)OVERLAP_F_B` is read as 0F7 and then 7B3. Empty rows
/// at the end are no ranks. Stages and microbatches are counted, and a stage lives where it is
/// first found. The schedule may still be invalid: ask validate(). Throws ScheduleError naming row,
/// column (both from 1) and cell.
Schedule schedule_from_csv(const std::string& csv, std::string name = "csv");

}  // namespace lockstep
