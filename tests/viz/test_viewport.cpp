#include <doctest/doctest.h>

#include "tests/viz/sample_run.h"
#include "viz/data/layout/strip_layout.h"
#include "viz/data/layout/viewport.h"
#include "viz/read/timeline/reader.h"

using namespace lockstep;
using namespace lockstep::viz;

namespace {}  // namespace

TEST_CASE("zooming keeps the time under the cursor, panning moves by a share of the window") {
  Timeline timeline;
  Viewport viewport;
  viewport.go_to({1000, 2000});
  viewport.advance(timeline, 0, true);
  viewport.zoom(0.5, 1200);
  viewport.advance(timeline, 0, true);
  CHECK(viewport.window().begin == doctest::Approx(1100));
  CHECK(viewport.window().end == doctest::Approx(1600));
  viewport.pan(0.2);
  CHECK(viewport.window().begin == doctest::Approx(1200));
  viewport.zoom(1e-30, 1300);
  viewport.advance(timeline, 0, true);
  CHECK(viewport.window().width() >= 100);  // never empty
}

TEST_CASE("a glide arrives and then rests") {
  Timeline timeline;
  Viewport viewport;
  viewport.go_to({0, 1e9});
  int frames = 0;
  for (; viewport.moving() && frames < 1000; ++frames) viewport.advance(timeline, 0.016);
  CHECK(frames > 3);
  CHECK(frames < 60);
  CHECK(viewport.window() == TimeWindow{0, 1e9});
}

TEST_CASE("following shows the last few steps; any user input ends it") {
  Timeline timeline;
  read_sample(sample_traces(sample_1f1b(4, 8, 10)), timeline);
  for (const auto& rank : timeline.ranks()) const_cast<RankTimeline&>(*rank).ended = false;
  Viewport viewport;
  viewport.follow(true);
  viewport.advance(timeline, 0, true);
  CHECK(viewport.window().end > static_cast<double>(timeline.end()));
  CHECK(viewport.window().begin < static_cast<double>(timeline.steps()[7].end));
  CHECK(viewport.window().begin > static_cast<double>(timeline.steps()[6].start));
  viewport.zoom(0.9, 0);
  CHECK_FALSE(viewport.following());
}

TEST_CASE("a window stays wide enough for doubles to tell its pixels apart") {
  Timeline timeline;
  timeline.add(0, 0, {.start = latest_time / 2, .end = latest_time / 2});
  timeline.settle();
  Viewport viewport;
  const auto check = [&] {
    viewport.advance(timeline, 0, true);
    const TimeWindow& window = viewport.window();
    CHECK(window.begin + window.width() / 10'000 > window.begin);
    CHECK(window.end > window.begin);
  };
  viewport.fit(timeline);
  check();
  for (int i = 0; i < 100; ++i) viewport.zoom(1e-3, static_cast<double>(latest_time / 2));
  check();
  for (int i = 0; i < 300; ++i) viewport.pan(1e9);
  check();
  viewport.zoom(1e300, 0);
  check();
  viewport.follow(true);
  check();
}

TEST_CASE("between distant times, a window is never empty") {
  Timeline timeline;
  for (const double far : {1e15, 1e18, 9e18, -1e18}) {
    CAPTURE(far);
    Viewport viewport;
    viewport.go_to({far, far + 1e12});
    viewport.advance(timeline, 0, true);
    viewport.go_to({3, 1003});
    for (int frame = 0; frame < 100; ++frame) {
      viewport.advance(timeline, 0.1, false);
      REQUIRE(viewport.window().width() >= 99);
    }
    CHECK(viewport.window().width() == doctest::Approx(1000));
    viewport.go_to({far, far + 1e12});
    viewport.advance(timeline, 0, true);
    viewport.go_to({3, 1003});
    viewport.advance(timeline, 0, true);
    CHECK(viewport.window().width() == doctest::Approx(1000));
  }
}

TEST_CASE("step by step") {
  Timeline timeline;
  read_sample(sample_traces(sample_1f1b(4, 8, 5)), timeline);
  Viewport viewport;
  viewport.fit_steps(timeline, 2, 2);
  CHECK(viewport.step_in_view(timeline) == 2);
  viewport.go_by_steps(timeline, 1);
  CHECK(viewport.step_in_view(timeline) == 3);
  for (int i = 0; i < 9; ++i) viewport.go_by_steps(timeline, 1);
  CHECK(viewport.step_in_view(timeline) == 4);
  for (int i = 0; i < 9; ++i) viewport.go_by_steps(timeline, -1);
  CHECK(viewport.step_in_view(timeline) == 0);
}

TEST_CASE(
    "lanes are grouped by rank, communication is thinner, and what is collapsed is anchored") {
  Timeline timeline;
  read_sample(sample_traces(sample_1f1b(4, 4, 1)), timeline);
  StripLayout layout;
  layout.update(timeline, 600, 1);
  REQUIRE(layout.groups().size() == 4);
  CHECK(layout.strips().size() == 4 + 2 + 4 + 4 + 2);
  CHECK(layout.height() <= 600);
  float y = 0;
  for (const Strip& strip : layout.strips()) {
    CHECK(strip.top >= y);
    y = strip.bottom();
    CHECK(layout.strip_at(strip.top + 1) == &strip);
    if (strip.kind == StripKind::communication) CHECK(strip.height < layout.strips()[0].height / 2);
  }
  CHECK(layout.strip_at(y + 1) == nullptr);
  const float open = layout.anchor(1, 3);
  CHECK(open > layout.groups()[1].top + layout.strips()[0].height);
  layout.toggle(1);
  layout.update(timeline, 600, 1);
  CHECK(layout.strips().size() == 4 + 2 + 4 + 2);
  CHECK(layout.anchor(1, 3) == layout.anchor(1, 0));
  CHECK(layout.anchor(9, 0) < 0);
  layout.toggle_all();
  layout.update(timeline, 600, 1);
  CHECK(layout.strips().size() == 4);
}

TEST_CASE("strips grow with the screen, but a few do not fill it") {
  Timeline timeline;
  read_sample(sample_traces(sample_1f1b(2, 4, 1)), timeline);
  StripLayout layout;
  layout.update(timeline, 400, 1);
  const float small = layout.strips()[0].height;
  layout.update(timeline, 1600, 1);
  CHECK(layout.strips()[0].height > 2 * small);
  CHECK(layout.height() < 800);
}

TEST_CASE("lanes of the same name share a strip, empty lanes have none") {
  Timeline timeline;
  const auto add = [&](int tid, Picoseconds start) {
    TimelineSpan span{.start = start, .end = start + 5};
    span.category = Category::communication;
    timeline.add(0, tid, span);
  };
  timeline.lane(0, 0);
  timeline.lane(0, 1).set_name("send → 1");
  timeline.lane(0, 2).set_name("send → 1");
  timeline.lane(0, 3).set_name("never");
  add(1, 0);
  add(2, 10);
  timeline.settle();
  StripLayout layout;
  layout.update(timeline, 300, 1);
  REQUIRE(layout.strips().size() == 2);
  CHECK(layout.strips()[1].lanes.size() == 2);
  CHECK(layout.anchor(0, 1) == layout.anchor(0, 2));
}

TEST_CASE("without a run, the window rests, so that an idle viewer takes no CPU time") {
  const Timeline empty;
  Viewport viewport;
  viewport.follow(true);
  viewport.advance(empty, 0.1);
  CHECK_FALSE(viewport.moving());
}
