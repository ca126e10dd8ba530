#include <fmt/format.h>

#include <algorithm>

#include "core/base/error.h"
#include "core/pipeline/walk.h"

namespace lockstep {

namespace {

template <class... Args>
[[noreturn]] void fail(const Schedule& schedule, fmt::format_string<Args...> text, Args&&... args) {
  throw ScheduleError(
      fmt::format("{}: {}", schedule.name, fmt::format(text, std::forward<Args>(args)...)));
}

void check_placement(const Schedule& schedule) {
  if (schedule.ranks < 1 || schedule.stages < 1 || schedule.microbatches < 1)
    fail(schedule, "{} ranks, {} stages, {} microbatches; wants at least 1 of each", schedule.ranks,
         schedule.stages, schedule.microbatches);
  if (schedule.rank_of_stage.size() != static_cast<std::size_t>(schedule.stages))
    fail(schedule, "has {} stages but says of {} where they live", schedule.stages,
         schedule.rank_of_stage.size());
  if (schedule.actions.size() != static_cast<std::size_t>(schedule.ranks))
    fail(schedule, "has {} ranks but lists actions for {}", schedule.ranks,
         schedule.actions.size());
  for (std::size_t stage = 0; stage < schedule.rank_of_stage.size(); ++stage)
    if (schedule.rank_of_stage[stage] < 0 || schedule.rank_of_stage[stage] >= schedule.ranks)
      fail(schedule, "stage {} lives on rank {}, but ranks are 0 to {}", stage,
           schedule.rank_of_stage[stage], schedule.ranks - 1);
}

void check_range(const Schedule& schedule, int rank, const Action& action) {
  if (action.stage < 0 || action.stage >= schedule.stages)
    fail(schedule, "rank {} does {}, but stages are 0 to {}", rank, to_string(action),
         schedule.stages - 1);
  if (action.microbatch < 0 || action.microbatch >= schedule.microbatches)
    fail(schedule, "rank {} does {}, but microbatches are 0 to {}", rank, to_string(action),
         schedule.microbatches - 1);
  const int home = schedule.rank_of_stage[static_cast<std::size_t>(action.stage)];
  if (home != rank)
    fail(schedule, "rank {} does {}, but stage {} lives on rank {}", rank, to_string(action),
         action.stage, home);
}

/// The actions found for one (stage, microbatch): one bit per Op, and two for order violations.
using Seen = std::uint8_t;
constexpr Seen bit(Op op) {
  return static_cast<Seen>(1u << static_cast<unsigned>(op));
}
constexpr Seen any_backward =
    bit(Op::backward) | bit(Op::backward_input) | bit(Op::backward_weight);
constexpr Seen backward_too_early = 16;
constexpr Seen weight_too_early = 32;

/// Adds `action` to `seen`. Order violations are reported later, because the missing predecessor
/// may not exist at all, which is a different error.
void note(const Schedule& schedule, int rank, const Action& action, Seen& seen) {
  if (seen & bit(action.op)) fail(schedule, "rank {} does {} twice", rank, to_string(action));
  if (action.op == Op::backward_weight) {
    if (!(seen & bit(Op::backward_input))) seen |= weight_too_early;
  } else if (action.op != Op::forward && !(seen & bit(Op::forward))) {
    seen |= backward_too_early;
  }
  seen |= bit(action.op);
  if ((seen & bit(Op::backward)) && (seen & any_backward) != bit(Op::backward))
    fail(schedule, "stage {} does both B and I or W for microbatch {}; B is I and W in one",
         action.stage, action.microbatch);
}

void check_cell(const Schedule& schedule, int stage, int microbatch, Seen seen) {
  const auto named = [&](Op op) { return to_string({op, stage, microbatch}); };
  const auto missing = [&](const std::string& what) {
    fail(schedule, "{} is missing; rank {} should do it", what,
         schedule.rank_of_stage[static_cast<std::size_t>(stage)]);
  };
  if (!(seen & bit(Op::forward))) missing(named(Op::forward));
  if (!(seen & any_backward))
    missing(fmt::format("the backward of stage {} for microbatch {} ({}, or {} and {})", stage,
                        microbatch, named(Op::backward), named(Op::backward_input),
                        named(Op::backward_weight)));
  if (!(seen & bit(Op::backward)))
    for (Op op : {Op::backward_input, Op::backward_weight})
      if (!(seen & bit(op))) missing(named(op));
  const int rank = schedule.rank_of_stage[static_cast<std::size_t>(stage)];
  if (seen & weight_too_early)
    fail(schedule, "rank {} does {} before {}, whose result it uses", rank,
         named(Op::backward_weight), named(Op::backward_input));
  if (seen & backward_too_early)
    fail(schedule, "rank {} does {} before its forward {}", rank,
         named(seen & bit(Op::backward) ? Op::backward : Op::backward_input), named(Op::forward));
}

}  // namespace

void check_actions(const Schedule& schedule) {
  check_placement(schedule);
  const auto microbatches = static_cast<std::size_t>(schedule.microbatches);
  const std::size_t cells = static_cast<std::size_t>(schedule.stages) * microbatches;
  // Also prevents a stray number in a file from causing an allocation of that size.
  if (schedule.action_count() < cells)
    fail(schedule,
         "has {} actions; {} stages and {} microbatches take at least {} (a forward and a backward "
         "each)",
         schedule.action_count(), schedule.stages, schedule.microbatches, 2 * cells);
  std::vector<Seen> seen(cells);
  for (int rank = 0; rank < schedule.ranks; ++rank)
    for (const Action& action : schedule.actions[static_cast<std::size_t>(rank)]) {
      check_range(schedule, rank, action);
      note(schedule, rank, action,
           seen[static_cast<std::size_t>(action.stage) * microbatches +
                static_cast<std::size_t>(action.microbatch)]);
    }
  constexpr Seen whole = bit(Op::forward) | bit(Op::backward);
  constexpr Seen halves = bit(Op::forward) | bit(Op::backward_input) | bit(Op::backward_weight);
  for (std::size_t cell = 0; cell < cells; ++cell)
    if (seen[cell] != whole && seen[cell] != halves)
      check_cell(schedule, static_cast<int>(cell / microbatches),
                 static_cast<int>(cell % microbatches), seen[cell]);
}

void throw_deadlock(const Schedule& schedule, const std::vector<std::size_t>& position) {
  const auto next = [&](int rank) -> const Action& {
    const auto index = static_cast<std::size_t>(rank);
    return schedule.actions[index][position[index]];
  };
  const auto source_rank = [&](const Action& action) {
    const int stage = stage_waited_for(action, schedule.stages);
    return schedule.rank_of_stage[static_cast<std::size_t>(stage)];
  };
  // Each stuck rank waits for another stuck rank, so following them ends in a cycle. It is reported
  // starting from its lowest rank.
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
      text += fmt::format(", which rank {} does after {}", source, to_string(next(source)));
    if (source == first) break;
    text += is_next ? fmt::format(", in which rank {} waits", source) : ", which waits";
    rank = source;
  }
  fail(schedule, "{}", text);
}

void validate(const Schedule& schedule) {
  check_actions(schedule);
  walk(schedule, [](std::size_t, const Action&, std::size_t) {});
}

}  // namespace lockstep
