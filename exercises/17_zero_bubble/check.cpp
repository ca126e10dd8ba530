#include "exercises/17_zero_bubble/task.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "exercises/frame/check.h"
#include "exercises/frame/schedules.h"

namespace lockstep::exercises {

const char* const learned =
    "Nobody waits for a weight gradient, so it can fill the bubble. With ZB-H1, every stage uses "
    "the memory that 1F1B's stage 0 needs anyway: what later stages don't need for microbatches in "
    "flight pays for the W's that they put off.";

namespace {

/// The numbers of microbatches between F and I, and between I and W, at the time when the stage
/// holds the most.
struct Held {
  int in_flight = 0, put_off = 0;
};

Held held(const std::vector<Action>& row) {
  Held most;
  int forwards = 0, inputs = 0, weights = 0;
  for (const Action& action : row) {
    ++(action.op == Op::forward ? forwards : action.op == Op::backward_input ? inputs : weights);
    if (forwards - weights > most.in_flight + most.put_off)
      most = {forwards - inputs, inputs - weights};
  }
  return most;
}

std::string diagnose_fault(const Schedule& schedule, ScheduleFault fault) {
  if (fault == ScheduleFault::deadlock)
    return "These actions wait for each other in a circle, so none of them ever starts. Adjacent "
           "stages must agree on the order of microbatches, and an early stage needs at least as "
           "many forward passes in advance as a later one.";
  if (fault == ScheduleFault::weight_first)
    return "W needs what its microbatch's I has computed on the way: the gradient of every layer's "
           "output. So it can only run after it.";
  if (fault == ScheduleFault::backward_first)
    return "I needs the activations of its microbatch's F.";
  if (fault == ScheduleFault::missing || fault == ScheduleFault::too_few) {
    // Are W's all that is missing?
    const auto has_all = [&](const std::vector<Action>& row, Op op) {
      return std::ssize(order_of(row, op)) == schedule.microbatches;
    };
    return std::string{"Every microbatch needs F, I and W on every stage."} +
           (std::ranges::all_of(schedule.actions,
                                [&](const auto& row) {
                                  return has_all(row, Op::forward) &&
                                         has_all(row, Op::backward_input);
                                })
                ? " The W's that are put off are still to come after the last I."
                : "");
  }
  return "Every microbatch needs F, then I, then W on every stage, once each.";
}

/// A W that delays the step: if it ran after the stage's last I, the step would be shorter.
struct EarlyWeight {
  Action action, next;
  Picoseconds step_would_take = 0;
};

std::optional<EarlyWeight> find_early_weight(const Schedule& schedule, const StageTimes& units) {
  const Picoseconds length = simulate_units(schedule, units).makespan;
  for (int stage = 0; stage < schedule.ranks; ++stage) {
    const auto& row = row_of(schedule, stage);
    std::size_t last_input = 0;
    for (std::size_t i = 0; i < row.size(); ++i)
      if (row[i].op == Op::backward_input) last_input = i;
    for (std::size_t i = 0; i < last_input; ++i) {
      if (row[i].op != Op::backward_weight) continue;
      Schedule moved = schedule;
      auto& actions = moved.actions[at(stage)];
      const auto begin = actions.begin();
      std::rotate(begin + static_cast<std::ptrdiff_t>(i),
                  begin + static_cast<std::ptrdiff_t>(i) + 1,
                  begin + static_cast<std::ptrdiff_t>(last_input) + 1);
      const Picoseconds then = simulate_units(moved, units).makespan;
      if (then < length && peak_live_microbatches(moved, stage) <= schedule.ranks)
        return EarlyWeight{row[i], row[i + 1], then};
    }
  }
  return {};
}

std::string diagnose_length(const Schedule& schedule, const StageTimes& units) {
  const int p = schedule.ranks;
  bool right_after = true;
  for (const auto& row : schedule.actions)
    for (std::size_t i = 0; i < row.size(); ++i)
      if (row[i].op == Op::backward_input)
        right_after = right_after && i + 1 < row.size() &&
                      row[i + 1] == Action{Op::backward_weight, row[i].stage, row[i].microbatch};
  if (right_after)
    return "Each W runs right after its I. Gradients travel up faster than with 1F1B, but at the "
           "end, while a stage waits for the last of them, it has no W left to run. Put off some "
           "of the W's: the last stage, which has run its last I first, needs the most of them.";

  // Not every gap is a mistake: the order of F and I in 1F1B has gaps, too.
  const auto wait = find_needless_wait(schedule, units, [&](const NeedlessWait& each) {
    if (each.could_run.op != Op::forward) return true;
    int in_flight = 0;
    for (const Action& action : row_of(schedule, each.rank)) {
      if (action == each.waits_for) break;
      in_flight += action.op == Op::forward ? 1 : action.op == Op::backward_input ? -1 : 0;
    }
    return in_flight < p - each.rank;
  });
  if (wait && wait->step_would_take) {
    std::string text = describe(schedule, *wait);
    if (wait->could_run.op == Op::backward_weight)
      text += " A W waits for nothing but its I. " +
              (wait->rank == 0
                   ? std::string{"Stage 0 gets the last gradient last of all, and should have run "
                                 "all other W's by then."}
                   : fmt::format("Stage {} should run some W's earlier: at the end it needs them "
                                 "only for the time in which the last gradients travel from there "
                                 "up to stage 0.",
                                 wait->rank));
    return text;
  }

  if (const auto early = find_early_weight(schedule, units))
    return fmt::format(
        "Stage {} runs W{} before {}{}, and so delays gradients for which other stages wait. If it "
        "ran W{} after its last I, the step would take {}. The later the stage, the sooner it has "
        "run "
        "its last I, and the more W's it needs for the time after it.",
        early->action.stage, early->action.microbatch, letter(early->next.op),
        early->next.microbatch, early->action.microbatch, early->step_would_take);

  for (int stage = 0; stage < p; ++stage) {
    const auto& row = row_of(schedule, stage);
    const auto first = std::ranges::find(row, Op::backward_input, &Action::op) - row.begin();
    if (const auto forwards =
            std::count_if(row.begin(), row.begin() + first,
                          [](const Action& each) { return each.op == Op::forward; });
        forwards > p - stage)
      return fmt::format(
          "Stage {} runs {} F's before its first I, and 1F1B runs {}: the first gradient leaves "
          "the stage later than it could, and all stages before it wait for it.",
          stage, forwards, p - stage);
  }
  const std::string advice =
      "Compare the order of F's and I's alone with 1F1B's, which brings every gradient up as soon "
      "as it can, and put off W's only where the memory allows it.";
  return wait ? describe(schedule, *wait) + " " + advice : advice;
}

/// Throws Wrong unless this schedule of p stages and m microbatches is right.
void judge(Check& check, const std::string& what, const Schedule& schedule,
           const StageTimes& times) {
  const int p = schedule.ranks, m = schedule.microbatches;
  expect_valid(what, schedule,
               [&](ScheduleFault fault) { return diagnose_fault(schedule, fault); });
  for (const auto& row : schedule.actions)
    if (std::ranges::any_of(row, [](const Action& each) { return each.op == Op::backward; }))
      throw Wrong{what + ": Op::backward is a whole backward pass" + table(schedule),
                  "A backward pass is divided into two actions here, Op::backward_input and "
                  "Op::backward_weight, so that the previous stage need not wait for the second."};
  const Simulation simulation = simulate_units(schedule, times);
  const Picoseconds work = times.forward + times.backward_input + times.backward_weight;
  const Picoseconds most = m * work + (p - 1) * (work - 2 * times.backward_weight);
  if (simulation.makespan > most)
    throw Wrong{
        fmt::format("{}, T_F = {}, T_I = {}, T_W = {}: the step takes {}, and may take {}\n\n{}",
                    what, times.forward, times.backward_input, times.backward_weight,
                    simulation.makespan, most, picture(schedule, simulation).text),
        diagnose_length(schedule, times)};
  for (int stage = 0; stage < p; ++stage) {
    const int live = peak_live_microbatches(schedule, stage);
    if (live <= p) continue;
    const Held found = held(row_of(schedule, stage));
    throw Wrong{
        fmt::format("{}: stage {} holds {} microbatches at a time, and may hold {}\n\n{}", what,
                    stage, live, p, picture(schedule, simulation).text),
        fmt::format("The step is short, but needs too much memory: {} between F and I, and {} "
                    "between I and W. 1F1B gets by with {} between F and I on this stage, and so "
                    "{} may wait for W.",
                    found.in_flight, found.put_off, p - stage, stage)};
  }
  if (p == 4 && m == 8 && work == 3)
    check.show(
        fmt::format("Your schedule for 4 stages and 8 microbatches. The dots are {:.1f} % of "
                    "the step, and {:.1f} % with 1F1B: W's have filled the rest.",
                    100 * simulation.bubble, 300.0 / 11),
        picture(schedule, simulation));
}

void check_one(Check& check, int p, int m, const StageTimes& times) {
  judge_stages(
      check, p, m, [&](int stage) { return zero_bubble(stage, p, m); },
      [&](const std::string& what, const Schedule& schedule) {
        judge(check, what, schedule, times);
      });
}

}  // namespace

void check(Check& check) {
  const StageTimes ones{.forward = 1, .backward = 0, .backward_input = 1, .backward_weight = 1};
  const std::pair<int, int> cases[]{{1, 1}, {2, 2}, {2, 4}, {3, 3},  {1, 2},   {3, 5},
                                    {4, 4}, {4, 8}, {8, 8}, {8, 20}, {12, 14}, {16, 48}};
  for (const auto& [p, m] : cases) check_one(check, p, m, ones);
  for (int trial = 0; trial < 30; ++trial) {
    const int p = check.number_from(1, 12), weight = check.number_from(1, 6);
    check_one(check, p, p + check.number_from(0, 20),
              {.forward = weight + check.number_from(0, 4),
               .backward = 0,
               .backward_input = weight + check.number_from(0, 4),
               .backward_weight = weight});
  }
}

}  // namespace lockstep::exercises
