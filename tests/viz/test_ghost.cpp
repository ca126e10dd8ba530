#include <doctest/doctest.h>

#include "tests/viz/interactive.h"
#include "viz/data/layout/ghost.h"
#include "viz/read/timeline/reader.h"

using namespace lockstep;
using namespace lockstep::viz;

namespace {

SampleRun free_messages() {
  SampleRun run = sample_1f1b(4, 8, 3);
  run.times.cluster.within = {};
  run.cluster = "free";
  return run;
}

}  // namespace

TEST_CASE("a run that is as predicted lies on its ghost") {
  Timeline timeline;
  read_sample(sample_traces(free_messages()), timeline);
  const auto ghost = ghost_of(timeline, 1);
  REQUIRE(ghost);
  REQUIRE(ghost->ranks.size() == 4);
  int compared = 0;
  for (std::size_t rank = 0; rank < 4; ++rank) {
    CHECK(ghost->ranks[rank].size() == 16);
    for (const TimelineSpan& span : timeline.ranks()[rank]->compute()->rows(Band::action).front()) {
      if (span.step != 1 || !span.is_action()) continue;
      const GhostAction* predicted = ghost->find(rank, span);
      REQUIRE(predicted);
      CHECK(predicted->time == Interval{span.start, span.end});
      CHECK(ghost_words(*predicted, span) == "exactly as predicted");
      ++compared;
    }
  }
  CHECK(compared == 64);
}

TEST_CASE("one slow action stands out against the mean of its stage") {
  SampleRun run = free_messages();
  for (const auto& actions : run.schedule.actions) {
    auto& times = run.times.durations.emplace_back();
    for (const Action& action : actions) times.push_back(action.op == Op::forward ? ms : 2 * ms);
  }
  run.times.durations[0][0] = 9 * ms;  // the mean of stage 0's eight forwards: 2 ms
  Timeline timeline;
  read_sample(sample_traces(run), timeline);
  const auto ghost = ghost_of(timeline, 0);
  REQUIRE(ghost);
  const TimelineSpan& slow = timeline.ranks()[0]->compute()->rows(Band::action).front().front();
  const GhostAction* predicted = ghost->find(0, slow);
  REQUIRE(predicted);
  CHECK(ghost_words(*predicted, slow) == "took 7.00 ms longer than predicted");
  const auto next = neighbour(*timeline.ranks()[1]->compute(), Band::action, 0, 1);
  REQUIRE(next);
  CHECK(ghost_words(*ghost->find(1, *next), *next) == "started 7.00 ms later than predicted");
}

TEST_CASE("no ghost without a known schedule") {
  Timeline timeline;
  read_sample(sample_traces(free_messages()), timeline);
  CHECK_FALSE(ghost_of(timeline, 99));
  Prediction unknown = timeline.prediction(0);
  unknown.schedule = "home-made";
  timeline.predict(unknown);
  CHECK_FALSE(ghost_of(timeline, 1));
}

TEST_CASE("a first rank without a part in the pipeline") {
  Timeline timeline;
  timeline.lane(-1, 0);
  read_sample(sample_traces(free_messages()), timeline);
  REQUIRE(timeline.ranks().front()->rank == -1);
  const auto ghost = ghost_of(timeline, 1);
  REQUIRE(ghost);
  CHECK(ghost->ranks[0].empty());
  CHECK(ghost->ranks[1].size() == 16);
}

TEST_CASE("G and its button show the prediction") {
  Interactive viewer{free_messages()};
  viewer.press(keys::g);
  CHECK(viewer.model.view.ghost);
  viewer.press(keys::g);
  CHECK_FALSE(viewer.model.view.ghost);
}
