#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "core/pipeline/schedule.h"

namespace lockstep {

/// Throws an InvalidSchedule that names the cycle of waiting ranks. Each rank must be blocked in
/// the action at its `position`, which waits for another stage.
[[noreturn]] void throw_deadlock(const Schedule& schedule,
                                 const std::vector<std::size_t>& position);

/// Returns the stage whose result `action` waits for: the previous stage for F (activations), the
/// next stage for B and I (gradients). Returns -1 if it waits for no other stage: for F on the
/// first stage, B and I on the last, and every W. (Dependencies within a stage are earlier actions
/// of the same rank. A joined pair of actions waits for the inputs of both.)
inline int stage_waited_for(const Action& action, int stages) {
  if (action.op == Op::forward) return action.stage - 1;
  if (action.op == Op::backward_weight || action.stage + 1 == stages) return -1;
  return action.stage + 1;
}

/// Calls visit(rank, action, position) for every action, after all actions that this action waits
/// for. A joined pair is visited as one: the forward just before the backward, after all actions
/// that either of them waits for, and before all actions that wait for either. Used for validation
/// and simulation. Each rank advances until its next action must wait, and resumes when the awaited
/// action completes. Takes time linear in the number of actions. The order of the visits is
/// deterministic. `schedule` must have passed check_actions(). Throws InvalidSchedule if the
/// schedule deadlocks.
template <class Visit>
void walk(const Schedule& schedule, Visit&& visit) {
  const std::size_t microbatches = static_cast<std::size_t>(schedule.microbatches);
  const std::size_t ranks = schedule.actions.size();
  // The index of a result: 2 (stage · m + microbatch) for activations, 1 more for gradients.
  const auto result = [&](int stage, const Action& action) {
    return 2 * (static_cast<std::size_t>(stage) * microbatches +
                static_cast<std::size_t>(action.microbatch)) +
           (action.op == Op::forward ? 0 : 1);
  };
  constexpr std::size_t nothing = static_cast<std::size_t>(-1);
  std::vector<std::uint8_t> done(2 * static_cast<std::size_t>(schedule.stages) * microbatches);
  std::vector<std::size_t> position(ranks, 0);       // of each rank's next action
  std::vector<std::size_t> blocked(ranks, 0);        // position of the action that must wait: the
                                                     // next one, or its joined partner
  std::vector<std::size_t> awaited(ranks, nothing);  // the result that a blocked rank waits for
  std::vector<std::size_t> runnable(ranks);          // used as a stack
  for (std::size_t i = 0; i < ranks; ++i) runnable[i] = ranks - 1 - i;

  while (!runnable.empty()) {
    const std::size_t rank = runnable.back();
    runnable.pop_back();
    const std::vector<Action>& row = schedule.actions[rank];
    std::size_t& at = position[rank];
    while (at < row.size()) {
      const std::size_t end = at + (row[at].with_next ? 2 : 1);
      blocked[rank] = at;
      for (; blocked[rank] < end; ++blocked[rank]) {
        const Action& action = row[blocked[rank]];
        const int source = stage_waited_for(action, schedule.stages);
        if (source < 0 || done[result(source, action)]) continue;
        awaited[rank] = result(source, action);
        break;
      }
      if (blocked[rank] < end) break;
      for (std::size_t i = at; i < end; ++i) visit(rank, row[i], i);
      for (; at < end; ++at) {
        const Action& action = row[at];
        if (action.op == Op::backward_weight) continue;  // no other stage waits for it
        const std::size_t made = result(action.stage, action);
        done[made] = 1;
        const int user = action.op == Op::forward ? action.stage + 1 : action.stage - 1;
        if (user < 0 || user == schedule.stages) continue;
        const auto sleeper =
            static_cast<std::size_t>(schedule.rank_of_stage[static_cast<std::size_t>(user)]);
        if (awaited[sleeper] != made) continue;
        awaited[sleeper] = nothing;
        runnable.push_back(sleeper);
      }
      blocked[rank] = at;
    }
  }
  for (std::size_t rank = 0; rank < ranks; ++rank)
    if (position[rank] < schedule.actions[rank].size()) throw_deadlock(schedule, blocked);
}

}  // namespace lockstep
