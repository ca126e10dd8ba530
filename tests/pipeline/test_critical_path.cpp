#include <doctest/doctest.h>

#include <algorithm>
#include <map>
#include <random>
#include <tuple>

#include "core/pipeline/csv.h"
#include "tests/pipeline/random_schedules.h"
#include "tests/pipeline/simulated_timeline.h"
#include "tests/pipeline/worked_cases.h"
#include "tests/support/pipeline_checks.h"
#include "tests/support/portion.h"
#include "tests/support/timeline_of.h"
#include "viz/read/timeline/pipeline_analysis.h"
#include "viz/read/timeline/step_account.h"

// The critical path and the microbatches in flight. Most cases use simulated timelines, which are
// quick to create in any number; one case compares them with executed ones.

using namespace lockstep;

namespace {

constexpr Picoseconds us = 1'000'000;

struct Executed {
  Schedule schedule;
  PipelineTimes times;
  Simulation simulation = simulate(schedule, times, true);
  Timeline timeline = timeline_of(schedule, simulation);
};

/// A schedule of equal stages, with F = 1 and B = 2 in units of worked::unit.
Executed equal_stages(const Schedule& schedule, double latency_units = 0) {
  Cluster cluster;
  cluster.within.latency_seconds = latency_units * 1e-3;
  const StageTimes stage{.forward = worked::unit, .backward = 2 * worked::unit};
  return {schedule,
          {std::vector<StageTimes>(static_cast<std::size_t>(schedule.stages), stage), 0, cluster}};
}

std::string words(const PathLink& link) {
  const std::string action =
      std::to_string(link.stage) + letter_of(link.category) + std::to_string(link.microbatch);
  switch (link.kind) {
    case PathLink::Kind::action:
      return action;
    case PathLink::Kind::transfer:
      return action + " leaves";
    case PathLink::Kind::latency:
      return action + " arrives";
    case PathLink::Kind::other:
      break;
  }
  return "?";
}

std::string words(const CriticalPath& path) {
  std::string all;
  for (const PathLink& link : path.links) all += (all.empty() ? "" : ", ") + words(link);
  return all;
}

/// Returns the position, in its rank's list, of the action that a link refers to.
std::size_t position(const Schedule& schedule, const PathLink& link) {
  const auto& row = schedule.actions[static_cast<std::size_t>(link.rank)];
  return static_cast<std::size_t>(
      std::ranges::find_if(row,
                           [&](const Action& action) {
                             return action.stage == link.stage &&
                                    action.microbatch == link.microbatch &&
                                    category(action.op) == link.category;
                           }) -
      row.begin());
}

/// Compares the account of an executed step with its simulation: a rank waits where the simulation
/// has gaps between its actions. The wait is a bubble until the other stage has computed the
/// awaited result, unless the lane brings an earlier result.
void check_account(const Schedule& schedule, const Timeline& executed, const Timeline& simulated) {
  const StepAccount account = step_account(executed, 0);
  REQUIRE(account.ranks.size() == schedule.actions.size());
  std::map<std::tuple<int, int, bool>, Picoseconds> done;  // by stage, microbatch, forward
  for (const auto& rank : simulated.ranks())
    for (const SpanRow& row : rank->compute()->rows(Band::action))
      for (const TimelineSpan& span : row)
        if (span.category != Category::backward_weight)
          done[{span.stage, span.microbatch, span.category == Category::forward}] = span.end;
  for (std::size_t i = 0; i < account.ranks.size(); ++i) {
    const RankAccount& rank = account.ranks[i];
    const Intervals busy = pipeline_actions(simulated, *simulated.ranks()[i], 0);
    Intervals waits;
    for (const StepPiece& piece : rank.pieces) {
      if (piece.part == StepPart::compute) continue;
      waits.push_back(piece.time);
      CHECK(intersection({piece.time}, busy).empty());
      if (!is_bubble(piece.part)) continue;
      CHECK((piece.part == StepPart::warm_up) == (piece.time.start < busy.front().start));
      const bool forward = piece.category == Category::forward;
      const auto producer = done.find({piece.stage, piece.microbatch, forward});
      REQUIRE(producer != done.end());
      CHECK(piece.time.end <= producer->second);
    }
    CHECK(rank.sums.compute == length(busy));
    const Intervals own{{rank.time.start, rank.time.end}};
    CHECK(merged(waits) == difference(own, busy));
  }
}

}  // namespace

TEST_CASE("GPipe by hand: the path goes down with microbatch 0 and back up") {
  const Executed free = equal_stages(gpipe(3, 2));
  const auto path = critical_path(free.timeline, 0);
  REQUIRE(path);
  CHECK(words(*path) == "0F0, 1F0, 2F0, 2F1, 2B0, 1B0, 0B0, 0B1");
  const auto parts = path->parts();
  CHECK(parts.compute.at(0) == 5 * worked::unit);
  CHECK(parts.compute.at(1) == 3 * worked::unit);
  CHECK(parts.compute.at(2) == 4 * worked::unit);
  CHECK(parts.transfer + parts.latency + parts.stalled + parts.other == 0);

  const Executed far = equal_stages(gpipe(3, 2), 0.5);
  const auto longer = critical_path(far.timeline, 0);
  REQUIRE(longer);
  CHECK(words(*longer) ==
        "0F0, 0F0 arrives, 1F0, 1F0 arrives, 2F0, 2F1, 2B0, 2B0 arrives, 1B0, 1B0 arrives, 0B0, "
        "0B1");
  CHECK(longer->parts().latency == 2 * worked::unit);
}

TEST_CASE("a slow stage is on the path throughout") {
  Executed slow = equal_stages(one_f_one_b(4, 8));
  slow.times.stages[3] = {.forward = 2 * worked::unit, .backward = 3 * worked::unit};
  slow.simulation = simulate(slow.schedule, slow.times, true);
  slow.timeline = timeline_of(slow.schedule, slow.simulation);
  const auto path = critical_path(slow.timeline, 0);
  REQUIRE(path);
  CHECK(path->parts().compute.at(3) == 8 * 5 * worked::unit);
}

TEST_CASE("a link that is busy holds the path, and not the actions before it") {
  // Transfers of 3 units between two stages with F = 1: the activations queue on the link.
  Executed narrow = equal_stages(gpipe(2, 3));
  narrow.times.boundary_bytes = 1000;
  narrow.times.cluster.within.bandwidth = 1000 / 3e-3;
  narrow.simulation = simulate(narrow.schedule, narrow.times, true);
  narrow.timeline = timeline_of(narrow.schedule, narrow.simulation);
  const auto path = critical_path(narrow.timeline, 0);
  REQUIRE(path);
  CHECK(words(*path) ==
        "0F0, 0F0 leaves, 0F1 leaves, 0F2 leaves, 1F2, 1B0, 1B0 leaves, 1B1 leaves, 1B2 leaves, "
        "0B2");
  CHECK(path->parts().transfer == 18 * worked::unit);
}

TEST_CASE("random schedules: the path is as long as the step, and no link of it has slack") {
  std::mt19937 random{17};
  for (int round = 0; round < 300; ++round) {
    CAPTURE(round);
    const Schedule schedule = random_schedule(random);
    const Executed run{schedule, random_times(random, schedule, /*none_free=*/true)};
    CAPTURE(to_csv(run.schedule));
    const auto path = critical_path(run.timeline, 0);
    REQUIRE(path);
    CAPTURE(words(*path));
    CHECK(path->window == Interval{0, run.simulation.makespan});
    Picoseconds at = 0;
    for (const PathLink& link : path->links) {
      REQUIRE(link.time.start == at);
      REQUIRE(link.time.end > at);
      at = link.time.end;
      REQUIRE(link.kind != PathLink::Kind::other);
    }
    CHECK(at == run.simulation.makespan);
    const auto parts = path->parts();
    Picoseconds all = parts.transfer + parts.latency + parts.stalled + parts.other;
    for (const auto& [stage, time] : parts.compute) all += time;
    CHECK(all == run.simulation.makespan);

    // An action on the path that takes 1 µs longer makes the step 1 µs longer.
    PipelineTimes longer = run.times;
    for (std::size_t rank = 0; rank < run.schedule.actions.size(); ++rank) {
      longer.durations.emplace_back();
      for (const TimedAction& action : run.simulation.actions[rank])
        longer.durations.back().push_back(action.end - action.start);
    }
    for (const PathLink& link : path->links) {
      if (link.kind != PathLink::Kind::action) continue;
      Picoseconds& duration =
          longer.durations[static_cast<std::size_t>(link.rank)][position(run.schedule, link)];
      duration += us;
      REQUIRE(simulate(run.schedule, longer).makespan == run.simulation.makespan + us);
      duration -= us;
    }
  }
}

TEST_CASE("a step without pipeline actions has no path") {
  Timeline timeline;
  timeline.add(0, 0, {.start = 0, .end = 5, .step = 0, .category = Category::forward});
  timeline.settle();
  CHECK_FALSE(critical_path(timeline, 0));
  CHECK_FALSE(critical_path(timeline, 7));
}

TEST_CASE("without messages in the trace, the time to the user of a result counts as transfer") {
  Executed run = equal_stages(gpipe(2, 2), 0.5);
  run.simulation.messages.clear();
  run.timeline = timeline_of(run.schedule, run.simulation);
  const auto path = critical_path(run.timeline, 0);
  REQUIRE(path);
  CHECK(words(*path) == "0F0, 0F0 leaves, 1F0, 1F1, 1B0, 1B0 leaves, 0B0, 0B1");
}

TEST_CASE("an action that starts later than it could is still on the path") {
  Executed run = equal_stages(gpipe(2, 2));
  for (auto& row : run.simulation.actions)
    for (TimedAction& action : row)
      if (action.start >= worked::unit) {  // all but the first
        action.start += worked::unit;
        action.end += worked::unit;
      }
  run.simulation.messages.clear();
  run.timeline = timeline_of(run.schedule, run.simulation);
  CHECK(words(*critical_path(run.timeline, 0)) == "0F0, 0F0 leaves, 1F0, 1F1, 1B0, 0B0, 0B1");
}

TEST_CASE("a rank that waits until its message has left: the wait is part of the message") {
  // Two stages with F = 1, and a send of 2 after the first of two forwards.
  Timeline timeline;
  const auto add = [&](int rank, const char* name, Category category, int microbatch, int start,
                       int end) {
    timeline.add(rank, 0,
                 {.start = start * us,
                  .end = end * us,
                  .name = timeline.intern(name),
                  .step = 0,
                  .stage = category == Category::wait ? -1 : rank,
                  .microbatch = microbatch,
                  .peer = category == Category::wait ? 1 - rank : -1,
                  .category = category,
                  .role = category == Category::wait ? MessageRole::sends : MessageRole::none});
  };
  add(0, "action", Category::forward, 0, 0, 1);
  add(0, "send", Category::wait, -1, 1, 3);
  add(0, "action", Category::forward, 1, 3, 4);
  add(1, "action", Category::forward, 0, 3, 4);
  timeline.settle();
  CHECK(words(*critical_path(timeline, 0)) == "0F0, 0F0 leaves, 0F1");
}

TEST_CASE("random schedules: what a run's trace says is what the simulated one says") {
  std::mt19937 random{19};
  for (int round = 0; round < testing::portion_of(60, 8); ++round) {
    const Schedule schedule = random_full_schedule(random);
    CAPTURE(to_csv(schedule));
    Cluster cluster = random_times(random, schedule).cluster;
    cluster.flops = 1.7e10;
    cluster.memory_bandwidth = 2.3e10;
    Options options = testing::modelled_options(schedule.ranks, cluster);
    set_model(options.plan, {.layers = schedule.stages + 1,
                             .hidden = 16,
                             .heads = 2,
                             .sequence = 8,
                             .vocabulary = 256});
    const GptConfig& config = options.plan.model();
    PipelineTimes times;
    testing::ThreadRun run{options};
    CHECK(run([&](Rank& rank) {
            testing::StageModels stages{rank, config, schedule, 1};
            PipelineExecutor pipeline{rank.endpoint, rank.world, schedule, stages.pointers(),
                                      stage_boundary(config, 1)};
            rank.trace.drain();
            rank.trace.set_step(0);
            pipeline.step(testing::small_corpus(config).batch(
                1, 0, {.microbatches = schedule.microbatches, .size = 1}));
            if (rank.id == 0)
              times = pipeline_times(testing::plan_for(rank, config, schedule, 1),
                                     schedule.microbatches);
          }) == "");
    const Timeline executed = testing::timeline_of(run);
    const Timeline simulated = timeline_of(schedule, simulate(schedule, times, true));
    const auto path = critical_path(executed, 0);
    REQUIRE(path);
    CHECK(words(*path) == words(*critical_path(simulated, 0)));
    CHECK(path->links == critical_path(simulated, 0)->links);
    check_account(schedule, executed, simulated);
  }
}

TEST_CASE("random schedules: the peak in flight is the schedule's, and in the end none is left") {
  std::mt19937 random{20};
  for (int round = 0; round < 200; ++round) {
    const Schedule schedule = random_schedule(random);
    CAPTURE(to_csv(schedule));
    const Executed run{schedule, random_times(random, schedule, /*none_free=*/true)};
    const auto ranks = microbatches_in_flight(run.timeline, 0);
    REQUIRE(ranks.size() == schedule.actions.size());
    for (int rank = 0; rank < schedule.ranks; ++rank) {
      const auto& changes = ranks[static_cast<std::size_t>(rank)];
      int peak = 0;
      for (const InFlight& each : changes) peak = std::max(peak, each.microbatches);
      CHECK(peak == peak_live_microbatches(schedule, rank));
      CHECK(std::ranges::is_sorted(changes, {}, &InFlight::from));
      if (!changes.empty()) CHECK(changes.back().microbatches == 0);
    }
  }
}
