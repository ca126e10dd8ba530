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

/// One stage a rank, stage i on rank i, with empty lists of actions: where generators begin.
Schedule one_stage_per_rank(std::string name, int stages, int microbatches);

/// Throws ScheduleError naming the first thing wrong: an action that is missing, doubled or on the
/// wrong rank, a weight gradient before its input gradient, or a deadlock (with the actions that
/// wait for one another).
void validate(const Schedule& schedule);

/// The most microbatches that `rank` remembers at once when it follows the schedule: a forward adds
/// one, the end of its backward (B, or the later of I and W) takes one away.
int peak_live_microbatches(const Schedule& schedule, int rank);

/// PyTorch's grammar: a row per rank, a cell per action, `0F3`; an empty cell is idle and skipped,
/// and communication cells (SEND_F, RECV_F, SEND_B, RECV_B) are skipped too, as ours are implied.
std::string to_csv(const Schedule& schedule);
/// Throws ScheduleError naming row, column and cell.
Schedule schedule_from_csv(const std::string& csv, std::string name = "csv");

}  // namespace lockstep
