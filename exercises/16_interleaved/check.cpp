#include "exercises/16_interleaved/task.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <utility>

#include "exercises/frame/check.h"
#include "exercises/frame/schedules.h"

namespace lockstep::exercises {

const char* const learned =
    "With v chunks per rank the pipeline fills and drains v times as fast, and the bubble falls to "
    "(p-1)/(v m + p-1). The price is v times as many messages, and some more activations.";

namespace {

/// Returns the chunks and microbatches of one kind of a rank's passes, in order.
std::vector<std::array<int, 2>> passes_of(const Schedule& schedule, int rank, Op op) {
  std::vector<std::array<int, 2>> passes;
  for (const Action& action : schedule.actions[at(rank)])
    if (action.op == op) passes.push_back({action.stage / schedule.ranks, action.microbatch});
  return passes;
}

/// Returns the number of forward passes before a rank's first backward pass.
int forwards_first(const Schedule& schedule, int rank) {
  const auto& row = schedule.actions[at(rank)];
  const auto first =
      std::ranges::find_if(row, [](const Action& each) { return each.op != Op::forward; });
  return static_cast<int>(first - row.begin());
}

/// The smallest number of forward passes that the last rank runs before its first backward pass:
/// the first group through all chunks but the last, and one microbatch through the last. Each
/// earlier rank runs two more than the rank after it.
int most_held(const Schedule& schedule, int rank) {
  const int p = schedule.ranks, v = schedule.stages / p;
  return std::min(v * schedule.microbatches, (v - 1) * p + 2 * (p - 1 - rank) + 1);
}

Picture draw_chunks(const Schedule& schedule, const Simulation& simulation) {
  std::vector<Row> rows = draw(schedule, simulation).rows;
  for (Row& row : rows)
    for (Block& block : row.blocks)
      if (block.stage >= schedule.ranks) block.label[0] = block.label[0] == 'F' ? 'f' : 'b';
  Picture picture = draw(rows);
  while (picture.text.ends_with('\n')) picture.text.pop_back();
  return picture;
}

/// The order in which each microbatch goes through all chunks before the next one starts.
bool is_one_microbatch_after_the_other(const std::vector<std::array<int, 2>>& forwards) {
  return std::ranges::is_sorted(forwards, [](const auto& a, const auto& b) {
    return std::pair{a[1], a[0]} < std::pair{b[1], b[0]};
  });
}

std::string diagnose_fault(const Schedule& schedule, ScheduleFault fault) {
  const int p = schedule.ranks, v = schedule.stages / p;
  if (fault == ScheduleFault::wrong_stage) {
    bool neighbours = v > 1;
    for (int rank = 0; rank < p; ++rank)
      for (const Action& each : schedule.actions[at(rank)])
        neighbours = neighbours && each.stage / v == rank;
    return neighbours
               ? "These are neighbouring stages on each rank, and together only one long stage: a "
                 "rank would run them one after the other. Chunk c of rank r is stage c p + r."
               : "Chunk c of rank r is stage c p + r. An Action has the number of the stage, not "
                 "that of the chunk.";
  }
  if (fault == ScheduleFault::missing || fault == ScheduleFault::too_few)
    return std::string{
               "Every microbatch needs one forward and one backward pass on every stage, "
               "so each rank has v m of both."} +
           (std::ranges::all_of(schedule.actions,
                                [&](const auto& row) {
                                  return std::ssize(order_of(row, Op::forward)) ==
                                         v * schedule.microbatches;
                                })
                ? " Those that are in flight after the last forward pass are still to come."
                : "");
  if (fault == ScheduleFault::deadlock) {
    for (int rank = 0; rank < p; ++rank)
      if (const auto backwards = passes_of(schedule, rank, Op::backward);
          v > 1 && !backwards.empty() && backwards.front()[0] != v - 1)
        return fmt::format(
            "Rank {} begins its backward passes with chunk {}. Gradients come from the last stage, "
            "so backward passes go through the chunks in the opposite order: the first one is of "
            "the rank's last chunk.",
            rank, backwards.front()[0]);
    for (int rank = 0; rank < p; ++rank)
      if (const int first = forwards_first(schedule, rank); first > most_held(schedule, rank))
        return fmt::format(
            "These passes wait for each other in a circle. Rank {} wants {} forward passes before "
            "its first backward pass. That is too many: {} are enough.",
            rank, first, most_held(schedule, rank));
    return "These passes wait for each other in a circle, so none of them ever starts. All ranks "
           "must run forward passes in the same order of chunks and microbatches, and backward "
           "passes as well; and an early rank needs at least as many forward passes in advance as "
           "a later one.";
  }
  if (fault == ScheduleFault::backward_first) {
    for (int rank = 0; rank < p; ++rank)
      if (const int first = forwards_first(schedule, rank); first <= (v - 1) * p)
        return fmt::format(
            "Rank {} runs {} before its first backward pass. That pass is of its last chunk, so "
            "the first group of p microbatches must have been through all other chunks before: "
            "(v - 1) p forward passes, and one more.",
            rank, count_of(first, "forward pass", "forward passes"));
    return "A backward pass needs the activations of the forward pass of the same microbatch "
           "through the same stage.";
  }
  return "Every microbatch needs one forward and, after it, one backward pass on every stage.";
}

std::string diagnose_length(const Schedule& schedule, const StageTimes& times) {
  const int p = schedule.ranks, v = schedule.stages / p;
  bool one_after_the_other = v > 1 && p > 1;
  for (int rank = 0; rank < p; ++rank)
    one_after_the_other = one_after_the_other &&
                          is_one_microbatch_after_the_other(passes_of(schedule, rank, Op::forward));
  if (one_after_the_other && schedule.microbatches > 1)
    return "Each rank runs a microbatch through all its chunks before it turns to the next "
           "microbatch. But a microbatch has to go around all ranks before its next chunk can "
           "start: until then, a rank can run other microbatches through the first chunk, p in "
           "all.";
  // A forward pass can't fill a gap if its activations do not fit in memory.
  const auto wait = find_needless_wait(schedule, times, [&](const NeedlessWait& each) {
    if (each.could_run.op != Op::forward) return true;
    int held = 0;
    for (const Action& action : schedule.actions[static_cast<std::size_t>(each.rank)]) {
      if (action == each.waits_for) break;
      held += action.op == Op::forward ? 1 : -1;
    }
    return held < most_held(schedule, each.rank);
  });
  if (!wait) return "A rank is idle while it could work.";
  std::string text = describe(schedule, *wait);
  if (wait->waits_for.op == Op::backward && wait->could_run.op == Op::forward)
    text += fmt::format(
        " The rank runs {} before its first backward pass, and has memory for {}: a longer "
        "warm-up covers the time until the first gradient arrives.",
        count_of(forwards_first(schedule, wait->rank), "forward pass", "forward passes"),
        most_held(schedule, wait->rank));
  return text;
}

std::string diagnose_memory(const Schedule& schedule, int rank) {
  const int p = schedule.ranks, m = schedule.microbatches;
  const int all = m * schedule.stages / p, first = forwards_first(schedule, rank);
  if (first == all)
    return "All forward passes come before the first backward pass. The step is short, but the "
           "rank holds all activations. A backward pass can run, and free them, as soon as its "
           "gradient has arrived.";
  const auto forwards = passes_of(schedule, rank, Op::forward);
  int in_a_row = 0;
  while (in_a_row < all && forwards[at(in_a_row)][0] == 0) ++in_a_row;
  if (schedule.stages > p && in_a_row > p)
    return fmt::format(
        "{} microbatches run through the rank's first chunk before the second chunk begins. The "
        "first of them is back after p = {}: larger groups need more memory, and gain nothing.",
        in_a_row, p);
  return fmt::format(
      "The rank runs {} before its first backward pass. That is too many: {} are enough.",
      count_of(first, "forward pass", "forward passes"), most_held(schedule, rank));
}

/// Throws Wrong unless this schedule of p ranks with v chunks each is right.
void judge(Check& check, const std::string& what, const Schedule& schedule,
           const StageTimes& times) {
  const int p = schedule.ranks, v = schedule.stages / p, m = schedule.microbatches;
  expect_valid(what, schedule,
               [&](ScheduleFault fault) { return diagnose_fault(schedule, fault); });
  expect_whole_passes(what, schedule);
  const Simulation simulation = simulate_units(schedule, times);
  const Picoseconds shortest = (v * m + p - 1) * (times.forward + times.backward);
  const std::string capitals = v > 1 ? "; capital letters are the first chunk" : "";
  if (simulation.makespan > shortest)
    throw Wrong{fmt::format("{}, T_F = {}, T_B = {}: the step takes {}, and could take {}{}\n\n{}",
                            what, times.forward, times.backward, simulation.makespan, shortest,
                            capitals, draw_chunks(schedule, simulation).text),
                diagnose_length(schedule, times)};
  for (int rank = 0; rank < p; ++rank)
    if (const int held = peak_live_microbatches(schedule, rank), most = most_held(schedule, rank);
        held > most)
      throw Wrong{
          fmt::format("{}: rank {} holds the activations of {} passes at a time, and may "
                      "hold those of {}{}\n\n{}",
                      what, rank, held, most, capitals, draw_chunks(schedule, simulation).text),
          diagnose_memory(schedule, rank)};
  if (p == 4 && v == 2 && m == 4 && times.forward == 1 && times.backward == 2)
    check.show(
        fmt::format("Your schedule for 4 ranks with 2 chunks each, and 4 microbatches; small "
                    "letters are the second chunk. The dots are the bubble: {:.1f} % of the step, "
                    "and {:.1f} % with one chunk.",
                    100 * simulation.bubble, 300.0 / 7),
        draw_chunks(schedule, simulation));
}

void check_one(Check& check, int p, int v, int m, const StageTimes& times) {
  const std::string what = fmt::format("{}, {} each, {}", count_of(p, "rank"), count_of(v, "chunk"),
                                       count_of(m, "microbatch", "microbatches"));
  check.count_case(what);
  judge_twice(
      what, empty_schedule("your schedule", loop_placement(p, p * v), m),
      [&](int rank) { return interleaved(rank, p, v, m); },
      [&](const Schedule& schedule) { judge(check, what, schedule, times); });
}

}  // namespace

void check(Check& check) {
  const std::array<int, 3> cases[]{{1, 1, 1}, {2, 1, 2}, {1, 2, 2},  {2, 2, 2},  {2, 2, 4},
                                   {3, 2, 3}, {2, 3, 6}, {4, 2, 8},  {3, 3, 6},  {8, 2, 8},
                                   {4, 2, 4}, {4, 6, 8}, {3, 2, 24}, {12, 2, 24}};
  for (const auto& [p, v, m] : cases)
    for (const Picoseconds backward : {1, 2})
      check_one(check, p, v, m, {.forward = 1, .backward = backward});
  for (int trial = 0; trial < 30; ++trial) {
    const int p = check.number_from(1, 6), v = check.number_from(1, 4);
    check_one(check, p, v, p * check.number_from(1, 4),
              {.forward = check.number_from(1, 9), .backward = check.number_from(1, 9)});
  }
}

}  // namespace lockstep::exercises
