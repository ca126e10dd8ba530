#pragma once

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <map>
#include <optional>
#include <tuple>

#include "core/base/error.h"
#include "core/pipeline/simulator.h"
#include "core/pipeline/validate.h"
#include "exercises/frame/check.h"
#include "exercises/frame/picture.h"

/// Functions that the checks of several pipeline schedules share.
namespace lockstep::exercises {

/// Simulates a schedule whose stages all take these times, in units; messages take no time.
inline Simulation simulate_units(const Schedule& schedule, const StageTimes& units) {
  return simulate(schedule,
                  {.stages = std::vector(static_cast<std::size_t>(schedule.stages), units),
                   .cluster = Cluster{}});
}

/// Returns the name of one of the rank's actions: "F0", or "4F0" if ranks have several stages or
/// this stage is not the rank's.
inline std::string name_of(const Schedule& schedule, int rank, const Action& action) {
  if (schedule.stages > schedule.ranks || action.stage != rank) return to_string(action);
  return fmt::format("{}{}", letter(action.op), action.microbatch);
}

/// Returns a schedule as a table: one row per rank, in the order of its passes.
inline std::string table(const Schedule& schedule) {
  const bool several = schedule.stages > schedule.ranks;
  std::string text;
  for (std::size_t rank = 0; rank < schedule.actions.size(); ++rank) {
    text += fmt::format("\n  {} {}  ", several ? "rank" : "stage", rank);
    for (const Action& action : schedule.actions[rank])
      text += ' ' + name_of(schedule, static_cast<int>(rank), action);
  }
  return text;
}

inline const std::vector<Action>& row_of(const Schedule& schedule, int rank) {
  return schedule.actions[at(rank)];
}

/// Returns the microbatches of one kind of a rank's passes, in order.
inline std::vector<int> order_of(const std::vector<Action>& row, Op op) {
  std::vector<int> order;
  for (const Action& action : row)
    if (action.op == op) order.push_back(action.microbatch);
  return order;
}

/// Throws Wrong, with the diagnosis of the fault, unless the schedule is valid. `note` explains the
/// names in the message.
inline void expect_valid(const std::string& what, const Schedule& schedule,
                         const std::function<std::string(ScheduleFault)>& diagnose,
                         const char* note = "") {
  try {
    validate(schedule);
  } catch (const InvalidSchedule& error) {
    throw Wrong{fmt::format("{}: {}{}{}", what, error.what(), note, table(schedule)),
                diagnose(error.fault)};
  }
}

/// Throws Wrong if a backward pass is divided into I and W.
inline void expect_whole_passes(const std::string& what, const Schedule& schedule) {
  for (const auto& row : schedule.actions)
    for (const Action& each : row)
      if (each.op != Op::forward && each.op != Op::backward)
        throw Wrong{what + ": a backward pass is divided into I and W" + table(schedule),
                    "Here a backward pass is one action, Op::backward. Exercise 17 divides it."};
}

/// Asks for the list of every rank, and then for all lists again, starting with the last rank's.
/// Throws whatever `judge` throws about the schedule, unless the two answers differ: then the lists
/// depend on earlier calls, and the error says so.
inline void judge_twice(const std::string& what, Schedule schedule,
                        const std::function<std::vector<Action>(int rank)>& answer,
                        const std::function<void(const Schedule&)>& judge) {
  Schedule again = schedule;
  for (int rank = 0; rank < schedule.ranks; ++rank)
    schedule.actions[static_cast<std::size_t>(rank)] = answer(rank);
  for (int rank = schedule.ranks; rank-- > 0;)
    again.actions[static_cast<std::size_t>(rank)] = answer(rank);
  try {
    judge(schedule);
    if (again.actions != schedule.actions) judge(again);
  } catch (const Wrong&) {
    if (again.actions == schedule.actions) throw;
    throw Wrong{fmt::format("{}: a call with the same arguments returns another list the second "
                            "time. The first time:{}\n\nThe second time, called for the last rank "
                            "first:{}",
                            what, table(schedule), table(again)),
                "Something remains from one call to the next, in a static or a global variable. "
                "The list may depend on the arguments only: every rank calls the function by "
                "itself, and again in each step."};
  }
}

/// judge_twice() for p stages, each on a rank of its own, and m microbatches.
inline void judge_stages(
    Check& check, int p, int m, const std::function<std::vector<Action>(int stage)>& answer,
    const std::function<void(const std::string& what, const Schedule&)>& judge) {
  const std::string what =
      fmt::format("{}, {}", count_of(p, "stage"), count_of(m, "microbatch", "microbatches"));
  check.count_case(what);
  judge_twice(what, one_stage_per_rank("your schedule", p, m), answer,
              [&](const Schedule& schedule) { judge(what, schedule); });
}

/// Draws a simulated schedule, without the end of the last line.
inline Picture picture(const Schedule& schedule, const Simulation& simulation) {
  Picture drawn = draw(schedule, simulation);
  while (drawn.text.ends_with('\n')) drawn.text.pop_back();
  return drawn;
}

/// A rank waits for the input of one action although it could run another action, which it runs
/// later.
struct NeedlessWait {
  int rank = 0;
  Action waits_for, could_run;
  Picoseconds from = 0, until = 0;
  /// The time of the step if only this action moves there, provided that this makes the step
  /// shorter.
  std::optional<Picoseconds> step_would_take{};
};

/// Returns the earliest needless wait that makes the step longer on its own, or else the earliest
/// one, among those for which `counts` returns true.
inline std::optional<NeedlessWait> find_needless_wait(
    const Schedule& schedule, const StageTimes& units,
    const std::function<bool(const NeedlessWait&)>& counts = [](const auto&) { return true; }) {
  const Simulation simulation = simulate_units(schedule, units);
  std::map<std::tuple<bool, int, int>, Picoseconds>
      ends;  // (forward?, stage, microbatch): W has none
  for (std::size_t rank = 0; rank < schedule.actions.size(); ++rank)
    for (std::size_t i = 0; i < schedule.actions[rank].size(); ++i)
      if (const Action& each = schedule.actions[rank][i]; each.op != Op::backward_weight)
        ends[{each.op == Op::forward, each.stage, each.microbatch}] =
            simulation.actions[rank][i].end;
  const auto ready = [&](const Action& action) {
    const auto end = [&](bool forward, int stage) {
      return stage < 0 || stage == schedule.stages ? 0
                                                   : ends.at({forward, stage, action.microbatch});
    };
    if (action.op == Op::forward) return end(true, action.stage - 1);
    if (action.op == Op::backward_weight) return end(false, action.stage);
    return std::max(end(true, action.stage), end(false, action.stage + 1));
  };

  const auto step_with = [&](std::size_t rank, std::size_t at, std::size_t later) {
    Schedule moved = schedule;
    auto row = moved.actions[rank].begin();
    std::rotate(row + static_cast<std::ptrdiff_t>(at), row + static_cast<std::ptrdiff_t>(later),
                row + static_cast<std::ptrdiff_t>(later) + 1);
    try {
      return simulate_units(moved, units).makespan;
    } catch (const ScheduleError&) {  // a deadlock
      return simulation.makespan;
    }
  };

  std::optional<NeedlessWait> found;
  const auto is_better = [&](const NeedlessWait& wait) {
    if (!found) return true;
    if (wait.step_would_take.has_value() != found->step_would_take.has_value())
      return wait.step_would_take.has_value();
    return wait.from < found->from;
  };
  for (std::size_t rank = 0; rank < schedule.actions.size(); ++rank) {
    const auto& row = schedule.actions[rank];
    for (std::size_t i = 0; i < row.size(); ++i) {
      const Picoseconds from = i == 0 ? 0 : simulation.actions[rank][i - 1].end;
      const Picoseconds until = simulation.actions[rank][i].start;
      if (from == until) continue;
      for (std::size_t later = i + 1; later < row.size(); ++later) {
        NeedlessWait wait{static_cast<int>(rank), row[i], row[later],
                          std::max(from, ready(row[later])), until};
        if (wait.from >= until || !counts(wait)) continue;
        if (const Picoseconds length = step_with(rank, i, later); length < simulation.makespan)
          wait.step_would_take = length;
        if (is_better(wait)) found = wait;
        break;
      }
    }
  }
  return found;
}

/// Says what a rank, or a stage, could have done instead of waiting.
inline std::string describe(const Schedule& schedule, const NeedlessWait& wait) {
  const std::string could_run = name_of(schedule, wait.rank, wait.could_run);
  return fmt::format(
      "{} {} is idle until {}, because it waits for the input of {}, although it could run {} from "
      "{} on.{}",
      schedule.stages > schedule.ranks ? "Rank" : "Stage", wait.rank, wait.until,
      name_of(schedule, wait.rank, wait.waits_for), could_run, wait.from,
      wait.step_would_take
          ? fmt::format(" With {} there, the step would take {}.", could_run, *wait.step_would_take)
          : "");
}

}  // namespace lockstep::exercises
