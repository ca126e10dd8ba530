#include <doctest/doctest.h>

#include <random>

#include "lessons/schedules/registry.h"
#include "viz/data/feed/run_schedule.h"

using namespace lockstep;
using namespace lockstep::viz;

namespace {

/// A trace of another tool, whose ranks run these actions one after the other.
void run(const Schedule& schedule, Timeline& timeline) {
  for (std::size_t rank = 0; rank < schedule.actions.size(); ++rank) {
    Picoseconds time = 0;
    for (const Action& action : schedule.actions[rank]) {
      TimelineSpan span{.start = time,
                        .end = time + 10,
                        .step = 3,
                        .stage = action.stage,
                        .microbatch = action.microbatch};
      span.category = category(action.op);
      timeline.add(static_cast<int>(rank), 0, span);
      time += 20;
    }
  }
  timeline.settle();
}

}  // namespace

TEST_CASE("a run is named after the schedule whose actions it has in the same order") {
  std::mt19937 random{1};
  const auto below = [&](int n) { return std::uniform_int_distribution<int>{0, n - 1}(random); };
  for (const KnownSchedule& known : known_schedules()) {
    if (known.searched) continue;
    for (int i = 0; i < 10; ++i) {
      const int chunks = known.least_chunks + (known.most_chunks > 4 ? below(2) : 0);
      const PipelineSize size{2 + below(4), chunks, 1 + below(12)};
      if (!refusal(known, size).empty()) continue;
      const Schedule schedule = known.generate(size);
      Timeline timeline;
      run(schedule, timeline);
      name_schedule(timeline);
      CAPTURE(known.name);
      CAPTURE(size.ranks);
      CAPTURE(size.microbatches);
      REQUIRE(timeline.predictions().size() == 1);
      const Prediction& named = timeline.prediction(3);
      CHECK(named.stages == size.stages());
      CHECK(named.microbatches == size.microbatches);
      // At small sizes several schedules are the same.
      const KnownSchedule* same = find_schedule(named.schedule);
      REQUIRE(same != nullptr);
      CHECK(same->generate(size).actions == schedule.actions);
    }
  }
}

TEST_CASE("two actions in another order make another schedule") {
  Schedule schedule = find_schedule("1F1B")->generate(PipelineSize{3, 1, 6});
  std::swap(schedule.actions[0][4], schedule.actions[0][5]);
  Timeline timeline;
  run(schedule, timeline);
  name_schedule(timeline);
  CHECK(timeline.predictions().empty());
  REQUIRE(timeline.run().notes.size() == 1);
  CHECK(timeline.run().notes.front().ends_with("no schedule that the lessons generate."));
}

TEST_CASE("replicas of a pipeline count once, and a run without one has no schedule") {
  const Schedule schedule = find_schedule("GPipe")->generate(PipelineSize{2, 1, 3});
  Schedule twice = schedule;
  twice.actions.insert(twice.actions.end(), schedule.actions.begin(), schedule.actions.end());
  Timeline timeline;
  run(twice, timeline);
  name_schedule(timeline);
  CHECK(timeline.prediction(3).schedule == "GPipe");
  Timeline alone;
  TimelineSpan span{.start = 0, .end = 5, .step = 3};
  alone.add(0, 0, span);
  alone.settle();
  name_schedule(alone);
  CHECK(alone.predictions().empty());
  CHECK(alone.run().notes.empty());
}

TEST_CASE("ranks that only recompute run no schedule") {
  Timeline timeline;
  for (int rank = 0; rank < 3; ++rank)
    for (int microbatch = 0; microbatch < 2; ++microbatch)
      timeline.add(rank, 0,
                   {.start = 10 * microbatch,
                    .end = 10 * microbatch + 5,
                    .step = 0,
                    .stage = rank,
                    .microbatch = microbatch,
                    .category = Category::recompute});
  timeline.settle();
  name_schedule(timeline);
  CHECK(timeline.predictions().empty());
  CHECK(executed_step(timeline, 0).schedule.ranks == 0);
}
