#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "core/pipeline/schedule.h"

namespace lockstep {

/// Throws ScheduleError for what is wrong with a schedule apart from deadlock. After it every
/// (stage, microbatch) has F and then B, or I and then W, once each, all on the stage's rank.
void check_actions(const Schedule& schedule);

/// Throws the ScheduleError that names who waits for whom, when each rank stands before the action
/// at its `position` and none can go on.
[[noreturn]] void throw_deadlock(const Schedule& schedule,
                                 const std::vector<std::size_t>& position);

/// The stage whose result `action` waits for: the one before for an activation (F), the one after
/// for a gradient (B, I), and -1 for none: F on the first stage, B and I on the last, W anywhere.
/// (What an action needs of its own stage comes before it on its own rank.)
inline int stage_waited_for(const Action& action, int stages) {
  if (action.op == Op::forward) return action.stage - 1;
  if (action.op == Op::backward_weight || action.stage + 1 == stages) return -1;
  return action.stage + 1;
}

/// Calls visit(rank, action, position) for every action, each after all that it waits for: the
/// backbone of validating and simulating. A rank goes on until its next action waits; whoever does
/// the awaited action wakes it. Linear in the number of actions, and the order is always the same.
/// Wants check_actions() to have passed; throws ScheduleError where the schedule deadlocks.
template <class Visit>
void walk(const Schedule& schedule, Visit&& visit) {
  const std::size_t microbatches = static_cast<std::size_t>(schedule.microbatches);
  const std::size_t ranks = schedule.actions.size();
  // Results are numbered: activations at 2 (stage · m + microbatch), gradients one after.
  const auto result = [&](int stage, const Action& action) {
    return 2 * (static_cast<std::size_t>(stage) * microbatches +
                static_cast<std::size_t>(action.microbatch)) +
           (action.op == Op::forward ? 0 : 1);
  };
  constexpr std::size_t nothing = static_cast<std::size_t>(-1);
  std::vector<std::uint8_t> done(2 * static_cast<std::size_t>(schedule.stages) * microbatches);
  std::vector<std::size_t> position(ranks, 0);       // of each rank's next action
  std::vector<std::size_t> awaited(ranks, nothing);  // the result that a rank sleeps on
  std::vector<std::size_t> runnable(ranks);          // the next to run is at the back
  for (std::size_t i = 0; i < ranks; ++i) runnable[i] = ranks - 1 - i;

  while (!runnable.empty()) {
    const std::size_t rank = runnable.back();
    runnable.pop_back();
    const std::vector<Action>& row = schedule.actions[rank];
    for (std::size_t& at = position[rank]; at < row.size(); ++at) {
      const Action& action = row[at];
      const int source = stage_waited_for(action, schedule.stages);
      if (source >= 0 && !done[result(source, action)]) {
        awaited[rank] = result(source, action);
        break;
      }
      visit(rank, action, at);
      if (action.op == Op::backward_weight) continue;  // nobody waits for it
      const std::size_t made = result(action.stage, action);
      done[made] = 1;
      const int user = action.op == Op::forward ? action.stage + 1 : action.stage - 1;
      if (user < 0 || user == schedule.stages) continue;
      const auto sleeper =
          static_cast<std::size_t>(schedule.rank_of_stage[static_cast<std::size_t>(user)]);
      if (awaited[sleeper] == made) {
        awaited[sleeper] = nothing;
        runnable.push_back(sleeper);
      }
    }
  }
  for (std::size_t rank = 0; rank < ranks; ++rank)
    if (position[rank] < schedule.actions[rank].size()) throw_deadlock(schedule, position);
}

}  // namespace lockstep
