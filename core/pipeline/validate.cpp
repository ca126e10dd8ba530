#include "core/pipeline/validate.h"

#include <fmt/format.h>

#include "core/pipeline/walk.h"

namespace lockstep {

namespace {

template <class... Args>
[[noreturn]] void fail(const Schedule& schedule, ScheduleFault fault,
                       fmt::format_string<Args...> text, Args&&... args) {
  throw InvalidSchedule(
      fmt::format("{}: {}", schedule.name, fmt::format(text, std::forward<Args>(args)...)), fault);
}

void check_placement(const Schedule& schedule) {
  if (schedule.ranks < 1 || schedule.stages < 1 || schedule.microbatches < 1)
    fail(schedule, ScheduleFault::other,
         "{} ranks, {} stages, {} microbatches; a schedule needs at least 1 of each",
         schedule.ranks, schedule.stages, schedule.microbatches);
  if (schedule.rank_of_stage.size() != static_cast<std::size_t>(schedule.stages))
    fail(schedule, ScheduleFault::other, "has {} stages but a rank for {} of them", schedule.stages,
         schedule.rank_of_stage.size());
  if (schedule.actions.size() != static_cast<std::size_t>(schedule.ranks))
    fail(schedule, ScheduleFault::other, "has {} ranks but lists of actions for {}", schedule.ranks,
         schedule.actions.size());
  for (std::size_t stage = 0; stage < schedule.rank_of_stage.size(); ++stage)
    if (schedule.rank_of_stage[stage] < 0 || schedule.rank_of_stage[stage] >= schedule.ranks)
      fail(schedule, ScheduleFault::other, "stage {} is on rank {}, but ranks are 0 to {}", stage,
           schedule.rank_of_stage[stage], schedule.ranks - 1);
}

void check_range(const Schedule& schedule, int rank, const Action& action) {
  if (action.stage < 0 || action.stage >= schedule.stages)
    fail(schedule, ScheduleFault::wrong_stage, "rank {} runs {}, but stages are 0 to {}", rank,
         to_string(action), schedule.stages - 1);
  if (action.microbatch < 0 || action.microbatch >= schedule.microbatches)
    fail(schedule, ScheduleFault::no_microbatch, "rank {} runs {}, but microbatches are 0 to {}",
         rank, to_string(action), schedule.microbatches - 1);
  const int home = schedule.rank_of_stage[static_cast<std::size_t>(action.stage)];
  if (home != rank)
    fail(schedule, ScheduleFault::wrong_stage, "rank {} runs {}, but stage {} is on rank {}", rank,
         to_string(action), action.stage, home);
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
  if (seen & bit(action.op))
    fail(schedule, ScheduleFault::other, "rank {} runs {} twice", rank, to_string(action));
  if (action.op == Op::backward_weight) {
    if (!(seen & bit(Op::backward_input))) seen |= weight_too_early;
  } else if (action.op != Op::forward && !(seen & bit(Op::forward))) {
    seen |= backward_too_early;
  }
  seen |= bit(action.op);
  if ((seen & bit(Op::backward)) && (seen & any_backward) != bit(Op::backward))
    fail(schedule, ScheduleFault::other,
         "stage {} has B as well as I or W for microbatch {}; B includes both", action.stage,
         action.microbatch);
}

void check_order(const Schedule& schedule, int stage, int microbatch, Seen seen) {
  const auto named = [&](Op op) { return to_string({op, stage, microbatch}); };
  const int rank = schedule.rank_of_stage[static_cast<std::size_t>(stage)];
  if (seen & weight_too_early)
    fail(schedule, ScheduleFault::weight_first, "rank {} runs {} before {}, whose result it uses",
         rank, named(Op::backward_weight), named(Op::backward_input));
  if (seen & backward_too_early)
    fail(schedule, ScheduleFault::backward_first, "rank {} runs {} before its forward {}", rank,
         named(seen & bit(Op::backward) ? Op::backward : Op::backward_input), named(Op::forward));
}

void check_cell(const Schedule& schedule, int stage, int microbatch, Seen seen) {
  const auto named = [&](Op op) { return to_string({op, stage, microbatch}); };
  const auto missing = [&](const std::string& what) {
    fail(schedule, ScheduleFault::missing, "{} is missing; rank {} should run it", what,
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
  check_order(schedule, stage, microbatch, seen);
}

/// Checks a joined pair: a forward, and then a backward that does not use the forward's result.
void check_joined(const Schedule& schedule, int rank, std::size_t at) {
  const auto& row = schedule.actions[static_cast<std::size_t>(rank)];
  const Action& first = row[at];
  if (first.op != Op::forward || at + 1 == row.size() ||
      (row[at + 1].op != Op::backward && row[at + 1].op != Op::backward_input))
    fail(schedule, ScheduleFault::other,
         "rank {} joins {} with {}; a joint action is a forward and then a backward", rank,
         to_string(first), at + 1 < row.size() ? to_string(row[at + 1]) : "nothing");
  const Action& second = row[at + 1];
  if (first.stage == second.stage && first.microbatch == second.microbatch)
    fail(schedule, ScheduleFault::other, "rank {} joins {} with {}, which uses its result", rank,
         to_string(first), to_string(second));
}

/// Returns the actions found for each cell, stage by stage. Throws InvalidSchedule for an action
/// that is out of range, on the wrong rank, doubled or wrongly joined.
std::vector<Seen> seen_in(const Schedule& schedule, std::size_t cells) {
  std::vector<Seen> seen(cells);
  for (int rank = 0; rank < schedule.ranks; ++rank) {
    const auto& row = schedule.actions[static_cast<std::size_t>(rank)];
    for (std::size_t i = 0; i < row.size(); ++i) {
      const Action& action = row[i];
      check_range(schedule, rank, action);
      if (action.with_next) check_joined(schedule, rank, i);
      note(schedule, rank, action,
           seen[static_cast<std::size_t>(action.stage) *
                    static_cast<std::size_t>(schedule.microbatches) +
                static_cast<std::size_t>(action.microbatch)]);
    }
  }
  return seen;
}

}  // namespace

void check_actions(const Schedule& schedule) {
  check_placement(schedule);
  const auto microbatches = static_cast<std::size_t>(schedule.microbatches);
  const std::size_t cells = static_cast<std::size_t>(schedule.stages) * microbatches;
  // This check also prevents a stray number in a file from causing an allocation of that size.
  if (schedule.action_count() < cells)
    fail(schedule, ScheduleFault::too_few,
         "has {} actions; {} stages and {} microbatches take at least {} (a forward and a backward "
         "each)",
         schedule.action_count(), schedule.stages, schedule.microbatches, 2 * cells);
  const std::vector<Seen> seen = seen_in(schedule, cells);
  constexpr Seen whole = bit(Op::forward) | bit(Op::backward);
  constexpr Seen halves = bit(Op::forward) | bit(Op::backward_input) | bit(Op::backward_weight);
  for (std::size_t cell = 0; cell < cells; ++cell)
    if (seen[cell] != whole && seen[cell] != halves)
      check_cell(schedule, static_cast<int>(cell / microbatches),
                 static_cast<int>(cell % microbatches), seen[cell]);
}

void check_beginning(const Schedule& beginning) {
  check_placement(beginning);
  const auto microbatches = static_cast<std::size_t>(beginning.microbatches);
  const std::size_t cells = static_cast<std::size_t>(beginning.stages) * microbatches;
  const std::vector<Seen> seen = seen_in(beginning, cells);
  for (std::size_t cell = 0; cell < cells; ++cell)
    check_order(beginning, static_cast<int>(cell / microbatches),
                static_cast<int>(cell % microbatches), seen[cell]);
  for (std::size_t rank = 0; rank < beginning.actions.size(); ++rank)
    for (const Action& action : beginning.actions[rank]) {
      const int source = stage_waited_for(action, beginning.stages);
      if (source < 0) continue;
      const Seen made = seen[static_cast<std::size_t>(source) * microbatches +
                             static_cast<std::size_t>(action.microbatch)];
      const bool forward = action.op == Op::forward;
      if (!(made & (forward ? bit(Op::forward) : bit(Op::backward) | bit(Op::backward_input))))
        fail(beginning, ScheduleFault::missing, "rank {} runs {}, whose input {} is missing", rank,
             to_string(action),
             to_string({forward ? Op::forward : Op::backward, source, action.microbatch}));
    }
}

void validate(const Schedule& schedule) {
  check_actions(schedule);
  walk(schedule, [](std::size_t, const Action&, std::size_t) {});
}

}  // namespace lockstep
