#include "core/pipeline/walk.h"

#include <fmt/format.h>

#include <algorithm>

#include "core/pipeline/validate.h"

namespace lockstep {

void throw_deadlock(const Schedule& schedule, const std::vector<std::size_t>& position) {
  const auto next = [&](int rank) -> const Action& {
    const auto index = static_cast<std::size_t>(rank);
    return schedule.actions[index][position[index]];
  };
  const auto source_rank = [&](const Action& action) {
    const int stage = stage_waited_for(action, schedule.stages);
    return schedule.rank_of_stage[static_cast<std::size_t>(stage)];
  };
  // Each stuck rank waits for another stuck rank, so following these waits leads to a cycle. The
  // cycle is reported starting from its lowest rank.
  int stuck = 0;
  while (position[static_cast<std::size_t>(stuck)] ==
         schedule.actions[static_cast<std::size_t>(stuck)].size())
    ++stuck;
  for (int steps = 0; steps < schedule.ranks; ++steps) stuck = source_rank(next(stuck));
  int first = stuck;
  for (int rank = source_rank(next(stuck)); rank != stuck; rank = source_rank(next(rank)))
    first = std::min(first, rank);

  std::string text = fmt::format("deadlock: rank {} waits in {}", first, to_string(next(first)));
  for (int rank = first;;) {
    const Action& waiting = next(rank);
    const int source = source_rank(waiting);
    const std::vector<Action>& row = schedule.actions[static_cast<std::size_t>(source)];
    const int stage = stage_waited_for(waiting, schedule.stages);
    const auto wanted = std::find_if(row.begin(), row.end(), [&](const Action& action) {
      return action.stage == stage && action.microbatch == waiting.microbatch &&
             (action.op == Op::forward) == (waiting.op == Op::forward) &&
             action.op != Op::backward_weight;
    });
    text += fmt::format(" for {}", to_string(*wanted));
    const bool is_next = *wanted == next(source);
    if (!is_next)
      text += fmt::format(", which rank {} runs after {}", source, to_string(next(source)));
    if (source == first) break;
    text += is_next ? fmt::format(", in which rank {} waits", source) : ", which waits";
    rank = source;
  }
  throw InvalidSchedule(fmt::format("{}: {}", schedule.name, text), ScheduleFault::deadlock);
}

}  // namespace lockstep
