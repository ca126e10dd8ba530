// The statistics of a selected range, compared with a timeline worked out by hand.
#include <doctest/doctest.h>

#include "tests/viz/worked_step.h"
#include "viz/data/selection/range_statistics.h"
#include "viz/data/step/mean_step.h"
#include "viz/read/timeline/older.h"
#include "viz/read/timeline/reader.h"

using namespace lockstep;
using namespace lockstep::viz;

namespace {

struct WorkedRange {
  Timeline timeline;
  void add(int rank, int tid, Category category, Picoseconds start, Picoseconds end,
           const char* name = "", std::int64_t bytes = -1) {
    TimelineSpan span{.start = start * us, .end = end * us, .bytes = bytes, .step = 0};
    span.name = timeline.intern(name);
    span.category = category;
    infer_facts(span, name, timeline.lane(rank, tid));
    timeline.add(rank, tid, span);
  }
  /// Rank 0 computes from 0 to 10 and from 14 to 20, waits from 10 to 13, and within its forward
  /// from 4 to 6. Its sends run from 2 to 5 and from 8 to 12. Rank 1 computes from 5 to 9.
  WorkedRange() {
    add(0, 0, Category::forward, 0, 10, "forward");
    add(0, 0, Category::wait, 4, 6, "all_reduce");
    add(0, 0, Category::wait, 10, 13, "recv");
    add(0, 0, Category::backward, 14, 20, "backward");
    add(0, 1, Category::communication, 2, 5, "send", 100);
    add(0, 1, Category::communication, 8, 12, "send", 40);
    add(1, 0, Category::forward, 5, 9, "forward");
    add(1, 1, Category::communication, 3, 6, "recv", 100);
    timeline.run().clock = "wall";
    timeline.settle();
  }
};

}  // namespace

TEST_CASE("the statistics of exactly one range") {
  const WorkedRange hand;
  // From 3 to 16: rank 0 computes in 3-4, 6-10 and 14-16, and communicates in 3-5 and 8-12. Its
  // step begins at 0. Rank 1's lasts from 5 to 9, as on its compute lane.
  const RangeStatistics part = range_statistics(hand.timeline, {3 * us, 16 * us});
  REQUIRE(part.ranks.size() == 2);
  CHECK(part.axes == std::vector<std::string>{"communication"});
  const RankStatistics& first = part.ranks[0];
  CHECK(first.sums.compute == (1 + 4 + 2) * us);
  // While it waits, its own send moves in 4-5 and 10-12.
  CHECK(first.sums.axes == std::vector<Exposed>{{.transfer = 3 * us, .late_peer = 2 * us}});
  CHECK(first.sums.other == 1 * us);
  CHECK(first.in_no_step == 0);
  CHECK(first.communication == (2 + 4) * us);
  CHECK(first.hidden == (1 + 2) * us);
  CHECK(first.sent == 140);
  CHECK(part.ranks[1].sums.compute == 4 * us);
  CHECK(part.ranks[1].sums.other == 0);
  CHECK(part.ranks[1].in_no_step == 9 * us);
  CHECK(part.ranks[1].communication == 3 * us);
  CHECK(part.ranks[1].sent == 0);
  const auto total = [&](Category category) {
    return part.totals[static_cast<std::size_t>(category)];
  };
  CHECK(total(Category::forward).spans == 2);
  CHECK(total(Category::forward).time == (7 + 4) * us);
  CHECK(total(Category::backward).time == 2 * us);
  CHECK(total(Category::wait).time == 5 * us);
}

TEST_CASE("a range over several steps adds them up, and the time in no step") {
  Timeline timeline;
  add_worked_step(timeline, 0, 0);
  add_worked_step(timeline, 1, 60);
  // Rank 0: all of step 0, 6 outside of steps, and of step 1 the forward pass and 2 of the wait for
  // tp.
  const RangeStatistics range = range_statistics(timeline, {0, 72 * us});
  CHECK(range.axes == std::vector<std::string>{"dp", "tp"});
  const StepSums& sums = range.ranks[0].sums;
  CHECK(sums.compute == (26 + 10) * us);
  CHECK(sums.optimizer == 4 * us);
  CHECK(sums.axes[0] == Exposed{.transfer = 19 * us, .latency = us});
  CHECK(sums.axes[1] ==
        Exposed{.transfer = (2 + 1) * us, .latency = us, .late_peer = (1 + 1) * us});
  CHECK(range.ranks[0].in_no_step == 6 * us);
  CHECK(range.ranks[1].in_no_step == 16 * us);
  CHECK(range.ranks[1].sums.compute == (28 + 12) * us);
  // The range is exactly the step of a rank.
  const StepAccount account = step_account(timeline, 1);
  CHECK(range_statistics(timeline, account.ranks[0].time).ranks[0].sums == account.ranks[0].sums);
}

TEST_CASE("a send counts where it ends, and an empty range has nothing") {
  const WorkedRange hand;
  CHECK(range_statistics(hand.timeline, {8 * us, 11 * us}).ranks[0].sent == 0);
  CHECK(range_statistics(hand.timeline, {11 * us, 12 * us}).ranks[0].sent == 40);
  const RangeStatistics empty = range_statistics(hand.timeline, {7 * us, 7 * us});
  CHECK(empty.length() == 0);
  CHECK(empty.ranks[0].sums.total() + empty.ranks[0].in_no_step == 0);
  CHECK(empty.totals[0].spans == 0);
}

TEST_CASE("a collective's messages count on the lane that sends them") {
  WorkedRange hand;
  hand.add(0, 2, Category::communication, 5, 7, "all_gather", 30);
  hand.add(0, 3, Category::communication, 6, 9, "all_gather", 30);
  hand.timeline.flow_start(1, 0, 2, 5 * us);
  hand.timeline.flow_end(1, 1, 1, 8 * us);
  hand.timeline.settle();
  CHECK(range_statistics(hand.timeline, {6 * us, 11 * us}).ranks[0].sent == 30);
  CHECK(range_statistics(hand.timeline, {6 * us, 12 * us}).ranks[0].sent == 70);
  CHECK(range_statistics(hand.timeline, {6 * us, 12 * us}).ranks[1].sent == 0);
}

TEST_CASE("neighbouring ranges add up, and a rank's whole step equals the account") {
  Timeline timeline;
  read_sample(sample_traces(sample_1f1b(4, 8, 3)), timeline);
  const StepWindow& step = timeline.steps()[1];
  const StepAccount account = step_account(timeline, step.step);
  const RangeStatistics whole = range_statistics(timeline, {step.start, step.end});
  const Picoseconds middle = step.start + (step.end - step.start) / 3;
  const RangeStatistics left = range_statistics(timeline, {step.start, middle});
  const RangeStatistics right = range_statistics(timeline, {middle, step.end});
  for (std::size_t rank = 0; rank < 4; ++rank) {
    CAPTURE(rank);
    const RankStatistics &a = left.ranks[rank], &b = right.ranks[rank], &all = whole.ranks[rank];
    StepSums sums = with_axes(a.sums, left.axes, whole.axes);
    sums += with_axes(b.sums, right.axes, whole.axes);
    CHECK(sums == all.sums);
    CHECK(a.in_no_step + b.in_no_step == all.in_no_step);
    CHECK(all.sums.total() + all.in_no_step == whole.length());
    CHECK(a.communication + b.communication == all.communication);
    CHECK(a.hidden + b.hidden == all.hidden);
    CHECK(a.sent + b.sent == all.sent);
    // Time after the rank's own step belongs to the next step.
    const RankAccount& mine = account.ranks[rank];
    const RangeStatistics own = range_statistics(timeline, mine.time);
    StepSums expected = mine.sums;
    expected.cool_down -= account.length - (mine.time.end - mine.time.start) - expected.ended;
    expected.ended = 0;
    CHECK(with_axes(own.ranks[rank].sums, own.axes, account.axes) == expected);
  }
}
