// The statistics of a selected range, against a timeline worked by hand.
#include <doctest/doctest.h>

#include "core/timeline/reader.h"
#include "tests/viz/sample_run.h"
#include "viz/data/range_statistics.h"

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
    timeline.settle();
  }
};

}  // namespace

TEST_CASE("the statistics of exactly one range") {
  const WorkedRange hand;
  // From 3 to 16: rank 0 computes in 3-4, 6-10 and 14-16, and communicates in 3-5 and 8-12.
  const RangeStatistics part = range_statistics(hand.timeline, {3 * us, 16 * us});
  REQUIRE(part.ranks.size() == 2);
  const RankStatistics& first = part.ranks[0];
  CHECK(first.compute == (1 + 4 + 2) * us);
  CHECK(first.waiting == (2 + 3) * us);
  CHECK(first.idle == (2 + 3 + 1) * us);
  CHECK(first.communication == (2 + 4) * us);
  CHECK(first.hidden == (1 + 2) * us);
  CHECK(first.sent == 140);
  CHECK(part.ranks[1].compute == 4 * us);
  CHECK(part.ranks[1].idle == 9 * us);
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

TEST_CASE("a send counts where it ends, and an empty range has nothing") {
  const WorkedRange hand;
  CHECK(range_statistics(hand.timeline, {8 * us, 11 * us}).ranks[0].sent == 0);
  CHECK(range_statistics(hand.timeline, {11 * us, 12 * us}).ranks[0].sent == 40);
  const RangeStatistics empty = range_statistics(hand.timeline, {7 * us, 7 * us});
  CHECK(empty.length() == 0);
  CHECK(empty.ranks[0].compute + empty.ranks[0].idle == 0);
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

TEST_CASE("neighbouring ranges add up, and a whole step equals core/trace's analysis") {
  Timeline timeline;
  read_sample(sample_traces(sample_1f1b(4, 8, 3)), timeline);
  const StepWindow& step = timeline.steps()[1];
  const auto parts = step_parts(timeline, step.step);
  const RangeStatistics whole = range_statistics(timeline, {step.start, step.end});
  const Picoseconds middle = step.start + (step.end - step.start) / 3;
  const RangeStatistics left = range_statistics(timeline, {step.start, middle});
  const RangeStatistics right = range_statistics(timeline, {middle, step.end});
  for (std::size_t rank = 0; rank < 4; ++rank) {
    CAPTURE(rank);
    const RankStatistics &a = left.ranks[rank], &b = right.ranks[rank], &all = whole.ranks[rank];
    CHECK(a.compute + b.compute == all.compute);
    CHECK(a.waiting + b.waiting == all.waiting);
    CHECK(a.idle + b.idle == all.idle);
    CHECK(a.communication + b.communication == all.communication);
    CHECK(a.hidden + b.hidden == all.hidden);
    CHECK(a.sent + b.sent == all.sent);
    // On the modelled clock, step_parts() adds time between named spans to compute.
    const Interval window{step.start, step.end};
    CHECK(all.compute ==
          length(intersection(computation(*timeline.ranks()[rank], window), merged({window}))));
    CHECK(all.waiting == parts[rank].exposed());
  }
}
