#include <doctest/doctest.h>

#include <algorithm>
#include <chrono>
#include <random>

#include "core/base/error.h"
#include "tests/pipeline/worked_cases.h"

using namespace lockstep;

namespace {

constexpr Picoseconds millisecond = 1'000'000'000;

/// Identical stages with F = 1 ms and B = 2 ms, on a cluster with free messages.
PipelineTimes free_times(int stages) {
  PipelineTimes times;
  times.stages.assign(static_cast<std::size_t>(stages),
                      {.forward = millisecond, .backward = 2 * millisecond});
  return times;
}

/// The idle time of all ranks between the first start and the last end, computed from the actions.
Picoseconds idle(const Simulation& simulation) {
  Picoseconds total = 0;
  for (const auto& row : simulation.actions) {
    total += simulation.makespan;
    for (const TimedAction& action : row) total -= action.end - action.start;
  }
  return total;
}

void check_textbook_bubble(const Schedule& schedule) {
  const int p = schedule.stages;
  const int m = schedule.microbatches;
  CAPTURE(schedule.name);
  CAPTURE(p);
  CAPTURE(m);
  const Simulation simulation = simulate(schedule, free_times(p));
  CHECK(simulation.makespan == 3 * millisecond * (m + p - 1));
  CHECK(idle(simulation) * (m + p - 1) == simulation.makespan * p * (p - 1));
  CHECK(simulation.bubble == doctest::Approx(double(p - 1) / (m + p - 1)).epsilon(1e-14));
}

}  // namespace

TEST_CASE("with free communication GPipe and 1F1B idle exactly (p - 1)/(m + p - 1) of the time") {
  for (int p : {1, 2, 4, 8})
    for (int m : {1, 2, 3, 4, 8, 16}) {
      check_textbook_bubble(gpipe(p, m));
      check_textbook_bubble(one_f_one_b(p, m));
    }
  std::mt19937 random{8};
  for (int i = 0; i < 50; ++i) {
    const int p = std::uniform_int_distribution{1, 24}(random);
    const int m = std::uniform_int_distribution{1, 64}(random);
    check_textbook_bubble(gpipe(p, m));
    check_textbook_bubble(one_f_one_b(p, m));
  }
}

TEST_CASE("the bubble's formula holds on 256 stages and microbatches") {
  check_textbook_bubble(gpipe(256, 256));
  check_textbook_bubble(one_f_one_b(256, 256));
}

TEST_CASE("schedules timed by hand") {
  for (const worked::Case& c : worked::cases()) {
    CAPTURE(c.name);
    const Simulation simulation = simulate(c.schedule, worked::times(c), true);
    int last = 0;
    for (std::size_t rank = 0; rank < c.windows.size(); ++rank) {
      REQUIRE(c.windows[rank].size() == simulation.actions[rank].size());
      for (std::size_t i = 0; i < c.windows[rank].size(); ++i) {
        CAPTURE(rank);
        CAPTURE(to_string(c.schedule.actions[rank][i]));
        CHECK(simulation.actions[rank][i].start == worked::unit * c.windows[rank][i].start);
        CHECK(simulation.actions[rank][i].end == worked::unit * c.windows[rank][i].end);
        last = std::max(last, c.windows[rank][i].end);
      }
    }
    CHECK(simulation.makespan == worked::unit * last);
    // One message per boundary, microbatch and direction.
    CHECK(simulation.messages.size() ==
          std::size_t(2 * (c.schedule.stages - 1) * c.schedule.microbatches));
    for (std::size_t i = 0; i < c.messages.size(); ++i) {
      CAPTURE(i);
      const worked::Passage& expected = c.messages[i];
      const TimedMessage& message = simulation.messages[i];
      CHECK(message.from_rank == expected.from_rank);
      CHECK(message.to_rank == 1 - expected.from_rank);
      CHECK(message.stage == expected.made_by.stage);
      CHECK(message.microbatch == expected.made_by.microbatch);
      CHECK(message.forward == (expected.made_by.op == Op::forward));
      CHECK(message.start == worked::unit * expected.start);
      CHECK(message.sent == worked::unit * expected.sent);
      CHECK(message.arrived == worked::unit * expected.arrived);
    }
  }
}

TEST_CASE("messages cost what the link between the ranks' nodes costs") {
  PipelineTimes times = free_times(3);
  times.boundary_bytes = 1000;
  times.cluster.nodes = 2;
  times.cluster.ranks_per_node = 2;
  times.cluster.within = {1e-6, 1e9};   // 1 µs + 1 µs
  times.cluster.between = {5e-6, 1e8};  // 5 µs + 10 µs
  const Simulation simulation = simulate(gpipe(3, 1), times, true);
  REQUIRE(simulation.messages.size() == 4);
  for (const TimedMessage& message : simulation.messages) {
    const bool within = message.from_rank + message.to_rank == 1;
    CHECK(message.sent - message.start == (within ? 1'000'000 : 10'000'000));
    CHECK(message.arrived - message.sent == (within ? 1'000'000 : 5'000'000));
  }
  CHECK(simulation.makespan == 9 * millisecond + 2 * 17'000'000);
}

TEST_CASE("two stages of one rank pass results on without a message") {
  Schedule schedule{"V", 2, 4, 1, {0, 1, 1, 0}, {}};
  schedule.actions = {
      {{Op::forward, 0, 0}, {Op::forward, 3, 0}, {Op::backward, 3, 0}, {Op::backward, 0, 0}},
      {{Op::forward, 1, 0}, {Op::forward, 2, 0}, {Op::backward, 2, 0}, {Op::backward, 1, 0}}};
  PipelineTimes times = free_times(4);
  times.cluster.within.latency_seconds = 1e-3;
  const Simulation simulation = simulate(schedule, times, true);
  CHECK(simulation.messages.size() == 4);                    // 0 to 1, 2 to 3, and back
  CHECK(simulation.makespan == 16 * millisecond);            // 4 F, 4 B and 4 hops
  CHECK(simulation.actions[1][1].start == 3 * millisecond);  // when 1F0 ends
}

TEST_CASE("a bubble counts ranks that start late, an internal bubble does not") {
  // The second of two stages takes most of the time. Rank 0 runs for 2 of the 12 ms in its window;
  // rank 1 runs for all of the 10 ms in its window.
  PipelineTimes times = free_times(2);
  times.stages[0] = {.forward = millisecond, .backward = millisecond};
  times.stages[1] = {.forward = 5 * millisecond, .backward = 5 * millisecond};
  const Simulation simulation = simulate(gpipe(2, 1), times);
  CHECK(simulation.makespan == 12 * millisecond);
  CHECK(simulation.bubble == doctest::Approx(0.5));
  CHECK(simulation.internal_bubble == doctest::Approx(10.0 / 12));  // rank 0's window is longest
}

TEST_CASE("times that do not fit the schedule are named") {
  CHECK_THROWS_WITH_AS(simulate(gpipe(2, 1), free_times(3)), "GPipe: has 2 stages, but times for 3",
                       ScheduleError);
  PipelineTimes times = free_times(2);
  times.stages[1].backward_weight = -4;
  CHECK_THROWS_WITH_AS(simulate(gpipe(2, 1), times),
                       "GPipe: W of stage 1 takes -4 ps; no time may be negative", ScheduleError);
  times = free_times(2);
  times.boundary_bytes = -1;
  CHECK_THROWS_WITH_AS(simulate(gpipe(2, 1), times),
                       "GPipe: boundary_bytes is -1; it may not be negative", ScheduleError);
}

TEST_CASE("a step above 46 days is refused, computing or sending") {
  PipelineTimes times = free_times(2);
  times.stages[0].forward = longest_time / 2;
  CHECK_THROWS_AS(simulate(gpipe(2, 4), times), UsageError);
  times = free_times(2);
  times.cluster.within = {0, 1};
  times.boundary_bytes = std::int64_t{1} << 50;
  CHECK_THROWS_AS(simulate(gpipe(2, 1), times), UsageError);
}

TEST_CASE("a thousand stages and a thousand microbatches: two million actions") {
  constexpr int n = 1024;
  const Schedule schedule = one_f_one_b(n, n);
  PipelineTimes times;
  times.stages.assign(n, {.forward = 1'000'000, .backward = 2'000'000});
  const auto begin = std::chrono::steady_clock::now();
  const Simulation simulation = simulate(schedule, times);
  const std::chrono::duration<double> took = std::chrono::steady_clock::now() - begin;
  MESSAGE("simulated " << schedule.action_count() << " actions in " << took.count() << " s");
  CHECK(schedule.action_count() == 2 * n * n);
  CHECK(simulation.makespan == Picoseconds{3'000'000} * (n + n - 1));
  CHECK(simulation.bubble == doctest::Approx(1023.0 / 2047).epsilon(1e-12));
}
