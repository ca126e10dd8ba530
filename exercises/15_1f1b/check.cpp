#include "exercises/15_1f1b/task.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "exercises/frame/check.h"
#include "exercises/frame/schedules.h"

namespace lockstep::exercises {

const char* const learned =
    "1F1B takes exactly as long as GPipe, but what a stage must keep no longer grows with the "
    "number of microbatches: starting backward passes early saves memory, not time.";

namespace {

/// The largest number of microbatches that a stage may hold.
int most_held(const Schedule& schedule, int stage) {
  return std::min(schedule.microbatches, schedule.ranks - stage);
}

/// Returns the number of forward passes before a stage's first backward pass.
int forwards_first(const Schedule& schedule, int stage) {
  const auto& row = row_of(schedule, stage);
  const auto first =
      std::ranges::find_if(row, [](const Action& each) { return each.op != Op::forward; });
  return static_cast<int>(first - row.begin());
}

bool is_ascending(const std::vector<Action>& row) {
  return std::ranges::is_sorted(order_of(row, Op::forward)) &&
         std::ranges::is_sorted(order_of(row, Op::backward));
}

/// Says where two neighbours disagree on the order of microbatches; "" if none do.
std::string disagreement(const Schedule& schedule) {
  for (int stage = 0; stage + 1 < schedule.ranks; ++stage)
    for (const Op op : {Op::forward, Op::backward}) {
      const std::vector<int> here = order_of(row_of(schedule, stage), op);
      const std::vector<int> next = order_of(row_of(schedule, stage + 1), op);
      if (here != next)
        return fmt::format(
            "Stage {} runs its {} passes in the order {}, and stage {} in the order {}. Adjacent "
            "stages must agree on the order of microbatches: otherwise one of them waits for a "
            "microbatch that the other keeps for later.",
            stage, op == Op::forward ? "forward" : "backward", fmt::join(here, " "), stage + 1,
            fmt::join(next, " "));
    }
  return "";
}

std::string diagnose_microbatch(const Schedule& schedule) {
  for (const auto& row : schedule.actions)
    for (const Action& each : row)
      if (each.microbatch < 0 || each.microbatch >= schedule.microbatches)
        return each.op == Op::forward
                   ? "There are not that many microbatches: a stage can't run more forward passes "
                     "in advance than there are."
                   : "There is no such microbatch. As many backward passes follow the last forward "
                     "pass as microbatches are in flight, which can't be more than there are: "
                     "min(m, p - s), not p - s.";
  return "";
}

std::string diagnose_fault(ScheduleFault fault, const Schedule& schedule) {
  if (fault == ScheduleFault::deadlock) {
    const std::string circle =
        "These passes wait for each other in a circle, so none of them ever starts. ";
    if (const std::string orders = disagreement(schedule); !orders.empty()) return circle + orders;
    return circle +
           "A stage waits for a gradient, and the next stage, which should send it, first wants "
           "more forward passes: an early stage needs at least as many of them in advance as a "
           "later one.";
  }
  if (fault == ScheduleFault::no_microbatch) return diagnose_microbatch(schedule);
  if (fault == ScheduleFault::missing || fault == ScheduleFault::too_few)
    return std::string{"Every microbatch needs one forward and one backward pass on every stage."} +
           (std::ranges::all_of(schedule.actions,
                                [&](const auto& row) {
                                  return std::ssize(order_of(row, Op::forward)) ==
                                         schedule.microbatches;
                                })
                ? " After the last forward pass, the backward passes of the microbatches in flight "
                  "are still to come."
                : "");
  if (fault == ScheduleFault::backward_first)
    return std::string{"A backward pass needs the activations of its microbatch's forward pass"} +
           (std::ranges::all_of(schedule.actions, is_ascending)
                ? ", so it comes later in the list."
                : ". Run both kinds of passes in ascending order.");
  if (fault == ScheduleFault::wrong_stage)
    return "Each stage is on a rank of its own, which runs only this stage's passes: every Action "
           "in the list has the function's argument `stage`.";
  return "Every microbatch needs one forward and, after it, one backward pass on every stage.";
}

std::string diagnose_memory(const Schedule& schedule, int stage) {
  const int p = schedule.ranks, m = schedule.microbatches, most = most_held(schedule, stage);
  const int first = forwards_first(schedule, stage);
  bool all_first = true;
  for (int each = 0; each < p; ++each) all_first = all_first && forwards_first(schedule, each) == m;
  if (all_first && m > p)
    return "All forward passes come first. That is GPipe, which holds every microbatch. From the "
           "moment at which the first backward pass can start, run one forward and one backward "
           "pass in turn.";
  if (first > most)
    return fmt::format(
               "Stage {} starts {} before its first backward pass, and {} would be enough: ", stage,
               count_of(first, "forward pass", "forward passes"), most) +
           (stage == p - 1
                ? "on the last stage, a microbatch's backward pass can follow its forward pass at "
                  "once."
                : fmt::format(
                      "the gradient of its first microbatch returns after the stages behind "
                      "it, {} of them, have worked on it.",
                      p - 1 - stage));
  return fmt::format(
      "Stage {} begins with {}, which is not too many, but later it runs several forward passes "
      "between two backward passes. In the steady state, each forward pass follows a backward "
      "pass, which has freed a microbatch.",
      stage, count_of(first, "forward pass", "forward passes"));
}

/// Why a step takes too long although no stage holds too many microbatches.
std::string diagnose_length(const Schedule& schedule, const StageTimes& times) {
  if (const std::string orders = disagreement(schedule); !orders.empty()) return orders;
  for (int stage = 0; stage < schedule.ranks; ++stage)
    if (const int first = forwards_first(schedule, stage), most = most_held(schedule, stage);
        first < most)
      return fmt::format(
          "Stage {} starts {} before its first backward pass, and so is idle while it could work. "
          "Each stage needs enough forward passes to last until the first gradient is back: one "
          "for itself and one for each stage after it, here {}.",
          stage, count_of(first, "forward pass", "forward passes"), most);
  if (const auto wait = find_needless_wait(schedule, times)) return describe(schedule, *wait);
  return "A stage is idle while it could work.";
}

/// Throws Wrong unless this schedule of p stages and m microbatches is right.
void judge(Check& check, const std::string& what, const Schedule& schedule) {
  const int p = schedule.ranks, m = schedule.microbatches;
  expect_valid(
      what, schedule, [&](ScheduleFault fault) { return diagnose_fault(fault, schedule); },
      " (1F0 is stage 1's forward pass of microbatch 0)");
  expect_whole_passes(what, schedule);

  for (int stage = 0; stage < p; ++stage)
    if (const int most = most_held(schedule, stage), held = peak_live_microbatches(schedule, stage);
        held > most)
      throw Wrong{fmt::format("{}: stage {} holds {} microbatches at a time, and may hold {}{}",
                              what, stage, held, most, table(schedule)),
                  diagnose_memory(schedule, stage)};
  // First, backward passes take twice as long as forward passes; then, both take equally long.
  for (const int ratio : {2, 1}) {
    const StageTimes times{.forward = 1, .backward = ratio};
    const Simulation simulation = simulate_units(schedule, times);
    if (p == 4 && m == 8 && ratio == 1)
      check.show("Your schedule for 4 stages and 8 microbatches. Dots are the bubble:",
                 draw(schedule, simulation));
    const Picoseconds shortest = (m + p - 1) * (times.forward + times.backward);
    if (simulation.makespan > shortest)
      throw Wrong{fmt::format("{}, T_F = {}, T_B = {}: the step takes {}, and could take {}\n\n{}",
                              what, times.forward, times.backward, simulation.makespan, shortest,
                              picture(schedule, simulation).text),
                  diagnose_length(schedule, times)};
  }
}

void check_one(Check& check, int p, int m) {
  judge_stages(
      check, p, m, [&](int stage) { return one_f_one_b(stage, p, m); },
      [&](const std::string& what, const Schedule& schedule) { judge(check, what, schedule); });
}

}  // namespace

void check(Check& check) {
  const std::pair<int, int> cases[]{{1, 1}, {1, 3}, {2, 1}, {2, 2}, {2, 4},  {3, 1},   {3, 3},
                                    {3, 2}, {4, 8}, {4, 3}, {8, 8}, {8, 20}, {12, 16}, {16, 64}};
  for (const auto& [p, m] : cases) check_one(check, p, m);
  for (int trial = 0; trial < 30; ++trial)
    check_one(check, check.number_from(1, 12), check.number_from(1, 40));
}

}  // namespace lockstep::exercises
