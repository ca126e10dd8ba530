#include "exercises/14_gpipe/task.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "exercises/frame/check.h"
#include "exercises/frame/schedules.h"

namespace lockstep::exercises {

const char* const learned =
    "With m microbatches in the pipeline, a stage is idle for only p - 1 of m + p - 1 slots: it "
    "waits for the first microbatch to arrive and for the last gradient to return, and for nothing "
    "else.";

namespace {

std::string diagnose_fault(ScheduleFault fault) {
  if (fault == ScheduleFault::deadlock)
    return "These passes wait for each other in a circle, so none of them ever starts. A stage "
           "wants a gradient before it runs a forward pass, and the next stage, which should send "
           "the gradient, first wants that forward pass.";
  if (fault == ScheduleFault::missing || fault == ScheduleFault::too_few)
    return "Every microbatch, 0 to m - 1, needs one forward and one backward pass on every stage.";
  if (fault == ScheduleFault::backward_first)
    return "A backward pass needs the activations of its microbatch's forward pass, so it comes "
           "later in the list.";
  if (fault == ScheduleFault::wrong_stage)
    return "Each stage is on a rank of its own, which runs only this stage's passes: every Action "
           "in the list has the function's argument `stage`.";
  return "Every microbatch, 0 to m - 1, needs one forward pass and, after it, one backward pass on "
         "every stage.";
}

std::string diagnose_length(const Schedule& schedule, const StageTimes& times) {
  const auto& rows = schedule.actions;
  for (std::size_t stage = 0; stage + 1 < rows.size(); ++stage)
    for (const Op op : {Op::forward, Op::backward})
      if (const std::vector<int> here = order_of(rows[stage], op),
          next = order_of(rows[stage + 1], op);
          here != next)
        return fmt::format(
            "Stage {} runs its {} passes in the order {}, and stage {} in the order {}. Any order "
            "does, but all stages must agree on it: otherwise one of them waits for a microbatch "
            "that the other keeps for later.",
            stage, op == Op::forward ? "forward" : "backward", fmt::join(here, " "), stage + 1,
            fmt::join(next, " "));
  bool one_at_a_time = true;
  for (int rank = 0; rank < schedule.ranks; ++rank)
    one_at_a_time = one_at_a_time && peak_live_microbatches(schedule, rank) == 1;
  if (one_at_a_time)
    return "The stages work on one microbatch at a time, so only one rank works at any moment. "
           "While a microbatch is on its way through the other stages, a stage can run the forward "
           "pass of the next one.";
  if (const auto wait = find_needless_wait(schedule, times)) {
    std::string text = describe(schedule, *wait);
    if (wait->waits_for.op == Op::backward && wait->could_run.op == Op::forward)
      text +=
          " A stage should not wait for a gradient while it has forward passes to run: the stages "
          "behind it need them.";
    return text;
  }
  return "A stage is idle while it could work.";
}

/// Throws Wrong unless this schedule of p stages and m microbatches is right.
void judge(Check& check, const std::string& what, const Schedule& schedule,
           const StageTimes& times) {
  const int p = schedule.ranks, m = schedule.microbatches;
  expect_valid(what, schedule, diagnose_fault);
  expect_whole_passes(what, schedule);
  const Simulation simulation = simulate_units(schedule, times);
  const Picoseconds shortest = (m + p - 1) * (times.forward + times.backward);
  if (simulation.makespan > shortest)
    throw Wrong{fmt::format("{}, T_F = {}, T_B = {}: the step takes {}, and could take {}\n\n{}",
                            what, times.forward, times.backward, simulation.makespan, shortest,
                            picture(schedule, simulation).text),
                diagnose_length(schedule, times)};
  if (p == 4 && m == 4 && times.forward == 1 && times.backward == 2)
    check.show(fmt::format("Your schedule for 4 stages and 4 microbatches, with backward passes "
                           "that take twice as long as forward passes. The dots are the bubble: "
                           "{:.1f} % of the step.",
                           100 * simulation.bubble),
               picture(schedule, simulation));
}

void check_one(Check& check, int p, int m, const StageTimes& times) {
  judge_stages(
      check, p, m, [&](int stage) { return gpipe(stage, p, m); },
      [&](const std::string& what, const Schedule& schedule) {
        judge(check, what, schedule, times);
      });
}

}  // namespace

void check(Check& check) {
  const std::pair<int, int> cases[]{{1, 1}, {2, 1}, {1, 3}, {2, 2}, {2, 4},   {3, 2},
                                    {3, 3}, {4, 8}, {8, 3}, {4, 4}, {12, 20}, {16, 64}};
  for (const auto& [p, m] : cases)
    for (const Picoseconds backward : {1, 2})
      check_one(check, p, m, {.forward = 1, .backward = backward});
  for (int trial = 0; trial < 30; ++trial)
    check_one(check, check.number_from(1, 12), check.number_from(1, 40),
              {.forward = check.number_from(1, 9), .backward = check.number_from(1, 9)});
}

}  // namespace lockstep::exercises
