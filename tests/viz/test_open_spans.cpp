#include <doctest/doctest.h>

#include "tests/viz/sample_run.h"
#include "viz/data/layout/open_spans.h"

using namespace lockstep;
using namespace lockstep::viz;

TEST_CASE("an open span grows between its announcements") {
  using std::chrono::milliseconds;
  Timeline timeline;
  timeline.run().ranks = 1;
  timeline.run().clock = "wall";
  TimelineSpan span{.start = 10 * ms, .end = 30 * ms};
  timeline.announce(0, 0, span);
  timeline.settle();
  const Lane& lane = *timeline.find_rank(0)->lanes.front();
  OpenSpans spans;
  const auto begin = OpenSpans::Clock::now();
  const auto end_after = [&](milliseconds time, bool live = true) {
    return spans.end_of(timeline, lane, lane.open().front(), live, begin + time);
  };
  CHECK(end_after(milliseconds{0}) == 30 * ms);
  CHECK(end_after(milliseconds{25}) == 55 * ms);
  // The next announcement counts from its own arrival.
  span.end = 90 * ms;
  timeline.announce(0, 0, span);
  timeline.settle();
  CHECK(end_after(milliseconds{60}) == 90 * ms);
  CHECK(end_after(milliseconds{70}) == 100 * ms);
  CHECK(end_after(milliseconds{70}, false) == 90 * ms);
  // Modelled time passes only while a rank works, so the span ends at the latest time that the run
  // has reached.
  timeline.run().clock = "modelled";
  TimelineSpan other{.start = 0, .end = 95 * ms};
  timeline.add(1, 0, other);
  timeline.settle();
  CHECK(end_after(milliseconds{500}) == 95 * ms);
}
