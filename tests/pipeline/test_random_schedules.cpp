#include <doctest/doctest.h>

#include <set>

#include "core/base/error.h"
#include "core/pipeline/csv.h"
#include "core/pipeline/validate.h"
#include "tests/pipeline/oracle.h"
#include "tests/pipeline/random_schedules.h"
#include "tests/support/portion.h"

using namespace lockstep;
using namespace lockstep::testing;

namespace {

bool contains(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

}  // namespace

TEST_CASE("random valid schedules pass validation, and take the time of the rules' fixpoint") {
  std::mt19937 random{1};
  const int count = portion_of(10'000, 400);
  int joined = 0;
  for (int i = 0; i < count; ++i) {
    CAPTURE(i);
    Schedule schedule = random_schedule(random);
    if (i % 2 == 1) joined += join_some(random, schedule);
    CAPTURE(to_csv(schedule));
    REQUIRE(complaint(schedule) == "");
    const PipelineTimes times = random_times(random, schedule);
    const Simulation simulation = simulate(schedule, times, true);
    const auto expected = oracle::solve(schedule, times);
    REQUIRE(expected);
    for (std::size_t rank = 0; rank < schedule.actions.size(); ++rank)
      for (std::size_t k = 0; k < schedule.actions[rank].size(); ++k) {
        CAPTURE(to_string(schedule.actions[rank][k]));
        REQUIRE(simulation.actions[rank][k].start == expected->actions[rank][k].start);
        REQUIRE(simulation.actions[rank][k].end == expected->actions[rank][k].end);
      }
    REQUIRE(simulation.messages.size() == expected->messages.size());
    int rank = 0;
    for (const TimedMessage& message : simulation.messages) {
      const oracle::Message& other =
          expected->messages.at({message.stage, message.microbatch, message.forward});
      REQUIRE(message.from_rank == other.from);
      REQUIRE(message.to_rank == other.to);
      REQUIRE(message.start == other.start);
      REQUIRE(message.sent == other.sent);
      REQUIRE(message.arrived == other.arrived);
      REQUIRE(message.from_rank >= rank);  // sorted by sending rank
      rank = message.from_rank;
    }
    CHECK(simulate(schedule, times).messages.empty());
  }
  CHECK(joined > count / 4);  // otherwise the test would prove little
}

TEST_CASE("a rank stashes the microbatches it has forwarded and not yet finished") {
  std::mt19937 random{2};
  for (int i = 0; i < 100; ++i) {
    const Schedule schedule = random_schedule(random);
    for (int rank = 0; rank < schedule.ranks; ++rank) {
      std::set<std::pair<int, int>> live;
      std::size_t peak = 0;
      for (const Action& action : schedule.actions[static_cast<std::size_t>(rank)]) {
        if (action.op == Op::forward) live.insert({action.stage, action.microbatch});
        if (action.op == Op::backward || action.op == Op::backward_weight)
          live.erase({action.stage, action.microbatch});
        peak = std::max(peak, live.size());
      }
      CHECK(peak_live_microbatches(schedule, rank) == static_cast<int>(peak));
      CHECK(live.empty());
    }
  }
}

TEST_CASE("the message names an action that was dropped, doubled or moved to another rank") {
  std::mt19937 random{3};
  for (int i = 0; i < 300; ++i) {
    const Schedule valid = random_schedule(random);
    const auto [rank, at] = random_place(random, valid);
    const Action action = valid.actions[rank][at];
    CAPTURE(to_csv(valid));
    CAPTURE(to_string(action));

    Schedule dropped = valid;
    auto& row = dropped.actions[rank];
    row.erase(row.begin() + static_cast<std::ptrdiff_t>(at));
    // If too few actions remain, validate() reports their number instead.
    if (dropped.action_count() >= std::size_t(valid.stages * valid.microbatches)) {
      CHECK(contains(complaint(dropped), to_string(action)));
      CHECK(contains(complaint(dropped), " is missing; rank " + std::to_string(rank)));
    }

    Schedule doubled = valid;
    doubled.actions[rank].insert(
        doubled.actions[rank].begin() +
            pick(random, 0, static_cast<int>(doubled.actions[rank].size())),
        action);
    CHECK(complaint(doubled) ==
          "random: rank " + std::to_string(rank) + " runs " + to_string(action) + " twice");

    Schedule moved = dropped;
    const std::size_t other = (rank + 1) % static_cast<std::size_t>(valid.ranks);
    if (other != rank) {
      moved.actions[other].push_back(action);
      CHECK(complaint(moved) == "random: rank " + std::to_string(other) + " runs " +
                                    to_string(action) + ", but stage " +
                                    std::to_string(action.stage) + " is on rank " +
                                    std::to_string(rank));
    }
  }
}

TEST_CASE("a schedule with one rank shuffled is rejected exactly if no fixpoint exists") {
  std::mt19937 random{4};
  int refused = 0;
  int deadlocks = 0;
  for (int i = 0; i < 2000; ++i) {
    Schedule schedule = random_schedule(random);
    if (i % 2 == 1) join_some(random, schedule);
    shuffle_some(random, schedule);
    CAPTURE(to_csv(schedule));
    const std::string said = complaint(schedule);
    CAPTURE(said);
    const PipelineTimes times = random_times(random, schedule, true);
    const bool misjoined = contains(said, " joins ");  // times would exist
    if (!misjoined) CHECK(said.empty() == oracle::solve(schedule, times).has_value());
    if (said.empty()) continue;
    ++refused;
    const bool deadlock = contains(said, "random: deadlock: rank ");
    deadlocks += deadlock;
    CHECK((deadlock || contains(said, " before ") || misjoined));
    CHECK_THROWS_AS(simulate(schedule, times), ScheduleError);
  }
  // Both outcomes must be frequent, or the test would prove nothing.
  CHECK(refused > 400);
  CHECK(refused < 1600);
  CHECK(deadlocks > 200);
}
