#include "exercises/15_1f1b/task.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "core/pipeline/simulator.h"
#include "core/pipeline/validate.h"
#include "exercises/frame/check.h"

namespace lockstep::exercises {

const char* const learned =
    "1F1B takes exactly as long as GPipe, but what a stage must keep no longer grows with the "
    "number of microbatches: starting backward passes early saves memory, not time.";

namespace {

/// Returns the learner's schedule as a table: a row per rank, in the order of its passes.
std::string table(const Schedule& schedule) {
  std::string text;
  for (std::size_t rank = 0; rank < schedule.actions.size(); ++rank) {
    text += fmt::format("\n  stage {}  ", rank);
    for (const Action& action : schedule.actions[rank])
      text += fmt::format(" {}{}", action.op == Op::forward ? 'F' : 'B', action.microbatch);
  }
  return text;
}

bool is_ascending(const std::vector<Action>& actions) {
  int forwards = 0, backwards = 0;
  return std::ranges::all_of(actions, [&](const Action& action) {
    return action.microbatch == (action.op == Op::forward ? forwards++ : backwards++);
  });
}

std::string diagnose_fault(ScheduleFault fault, const Schedule& schedule) {
  if (fault == ScheduleFault::deadlock) {
    if (std::ranges::all_of(schedule.actions, is_ascending))
      return "These passes wait for each other in a circle, so none of them ever starts. A stage "
             "waits for a gradient, and the next stage, which should send it, first wants more "
             "forward passes: an early stage needs at least as many of them in advance as a later "
             "one.";
    return "These passes wait for each other in a circle, so none of them ever starts. Adjacent "
           "stages must agree on the order of microbatches: run both kinds of passes in ascending "
           "order.";
  }
  if (fault == ScheduleFault::no_microbatch)
    return "There are not that many microbatches: a stage can't run more forward passes in advance "
           "than there are.";
  if (fault == ScheduleFault::missing)
    return "Every microbatch needs one forward and one backward pass on every stage. After the "
           "last forward pass, the backward passes of the microbatches in flight are still to "
           "come.";
  if (fault == ScheduleFault::backward_first)
    return "A backward pass needs the activations of its microbatch's forward pass. Run both kinds "
           "of passes in ascending order.";
  return "Every microbatch needs one forward and, after it, one backward pass on every stage.";
}

void check_one(Check& check, int p, int m) {
  const std::string what =
      fmt::format("{} stage{}, {} microbatch{}", p, p == 1 ? "" : "s", m, m == 1 ? "" : "es");
  Schedule schedule = one_stage_per_rank("your schedule", p, m);
  for (int stage = 0; stage < p; ++stage)
    schedule.actions[static_cast<std::size_t>(stage)] = one_f_one_b(stage, p, m);
  check.count_case();
  try {
    validate(schedule);
  } catch (const InvalidSchedule& error) {
    throw Wrong{fmt::format("{}: {} (1F0 is stage 1's forward pass of microbatch 0){}", what,
                            error.what(), table(schedule)),
                diagnose_fault(error.fault, schedule)};
  }

  // Backward passes that take twice as long, and as long, as forward passes.
  for (const int ratio : {2, 1}) {
    const StageTimes times{.forward = 1000, .backward = 1000 * ratio};
    const Simulation simulation =
        simulate(schedule,
                 {.stages = std::vector(static_cast<std::size_t>(p), times), .cluster = Cluster{}});
    const Picoseconds length = simulation.makespan;
    if (p == 4 && m == 8 && ratio == 1)
      check.show("Your schedule for 4 stages and 8 microbatches. Dots are the bubble:",
                 draw(schedule, simulation));
    const Picoseconds shortest = (m + p - 1) * (times.forward + times.backward);
    if (length > shortest)
      throw Wrong{
          fmt::format("{}: the step takes as long as {:g} forward passes, and could take {:g}{}",
                      what, static_cast<double>(length) / 1000,
                      static_cast<double>(shortest) / 1000, table(schedule)),
          m > 1 && p > 1
              ? "A stage is idle while it could work. Before its first backward pass, each stage "
                "needs enough forward passes to last until the first gradient is back: one for "
                "itself and one for each stage after it."
              : "A stage is idle while it could work."};
  }
  for (int stage = 0; stage < p; ++stage) {
    const int most = std::min(m, p - stage), held = peak_live_microbatches(schedule, stage);
    if (held <= most) continue;
    std::string why = fmt::format(
        "Stage {} starts {} forward passes before its first backward pass, and {} would "
        "be enough: the gradient of its first microbatch returns after the stages "
        "behind it, {} of them, have worked on it.",
        stage, held, most, p - 1 - stage);
    if (held == m && m > p)
      why =
          "All forward passes come first. That is GPipe, which holds every microbatch. From the "
          "moment at which the first backward pass can start, run one forward and one backward "
          "pass in turn.";
    throw Wrong{fmt::format("{}: stage {} holds {} microbatches at a time, and may hold {}{}", what,
                            stage, held, most, table(schedule)),
                why};
  }
}

}  // namespace

void check(Check& check) {
  for (const auto& [p, m] : {std::pair{1, 1},
                             {1, 3},
                             {2, 1},
                             {2, 2},
                             {2, 4},
                             {3, 3},
                             {3, 2},
                             {4, 8},
                             {4, 3},
                             {8, 8},
                             {8, 20}})
    check_one(check, p, m);
  for (int trial = 0; trial < 30; ++trial)
    check_one(check, check.number_from(1, 12), check.number_from(1, 30));
}

}  // namespace lockstep::exercises
