#include <doctest/doctest.h>

#include "tests/viz/interactive.h"
#include "viz/data/window/playback.h"

using namespace lockstep;
using namespace lockstep::viz;

namespace {

constexpr double one_ms = 1e9;  ///< in picoseconds, as the viewport counts

/// A finished run of one rank and one step of 60 ms.
struct OneStep {
  Timeline timeline;
  Viewport viewport;
  OneStep() {
    TimelineSpan span{.start = 0, .end = 60'000'000'000, .step = 0};
    span.category = Category::step;
    timeline.run().ranks = 1;
    timeline.add(0, 0, span);
    timeline.settle();
    viewport.go_to({0, 20 * one_ms});
    viewport.advance(timeline, 0, true);
  }
};

}  // namespace

TEST_CASE("a playback starts, moves, changes speed, pauses and ends") {
  OneStep run;
  run.timeline.end(0, 1);
  Playback playback;
  CHECK_FALSE(playback.active());
  playback.toggle(run.timeline, run.viewport);
  CHECK(playback.playing());
  CHECK(playback.cursor() == 0);
  // The step takes about six seconds.
  CHECK(playback.speed() == doctest::Approx(10 * one_ms).epsilon(0.5));
  const double speed = playback.speed();
  playback.advance(run.timeline, run.viewport, 0.5);
  CHECK(playback.cursor() == doctest::Approx(0.5 * speed));
  playback.change_speed(1);
  CHECK(playback.speed() == 2 * speed);
  playback.advance(run.timeline, run.viewport, 0.25);
  CHECK(playback.cursor() == doctest::Approx(speed));
  playback.toggle(run.timeline, run.viewport);
  CHECK_FALSE(playback.playing());
  playback.advance(run.timeline, run.viewport, 10);
  CHECK(playback.cursor() == doctest::Approx(speed));

  playback.scrub(run.timeline, 59 * one_ms);
  CHECK(playback.cursor() == 59 * one_ms);
  playback.scrub(run.timeline, 1000 * one_ms);
  CHECK(playback.cursor() == 60 * one_ms);
  playback.scrub(run.timeline, 59 * one_ms);
  playback.toggle(run.timeline, run.viewport);
  playback.advance(run.timeline, run.viewport, 10);
  CHECK(playback.cursor() == 60 * one_ms);
  CHECK_FALSE(playback.playing());  // the run has ended
  run.viewport.advance(run.timeline, 0, true);
  CHECK(run.viewport.window().end > 60 * one_ms);  // the window moved with the cursor
  playback.toggle(run.timeline, run.viewport);
  CHECK(playback.playing());
  CHECK(playback.cursor() == 0);
  playback.stop();
  CHECK_FALSE(playback.active());
}

TEST_CASE("a followed run pauses at its latest time and goes on when more arrives") {
  OneStep run;
  run.viewport.follow(true);
  Playback playback;
  playback.toggle(run.timeline, run.viewport);
  CHECK(playback.active());
  CHECK_FALSE(playback.playing());
  CHECK(playback.cursor() == 60 * one_ms);
  playback.scrub(run.timeline, 50 * one_ms);
  playback.toggle(run.timeline, run.viewport);
  playback.advance(run.timeline, run.viewport, 100);
  CHECK(playback.cursor() == 60 * one_ms);
  CHECK(playback.playing());
  TimelineSpan more{.start = 60'000'000'000, .end = 90'000'000'000, .step = 1};
  run.timeline.add(0, 0, more);
  run.timeline.settle();
  playback.advance(run.timeline, run.viewport, 100);
  CHECK(playback.cursor() == 90 * one_ms);
}

TEST_CASE("Space, the buttons and the time axis control the playback") {
  Interactive viewer{sample_1f1b(4, 8, 3)};
  const Playback& playback = viewer.model.playback;
  viewer.press(keys::space);
  CHECK(playback.playing());
  const double at = playback.cursor();
  viewer.frame();
  CHECK(playback.cursor() > at);
  viewer.press(keys::space);
  CHECK_FALSE(playback.playing());
  CHECK(playback.active());
  // A drag in the axis moves the playback's cursor; objects after the cursor are not found.
  const StepWindow step = viewer.model.timeline.steps()[1];
  const auto middle = (step.start + step.end) / 2;
  viewer.drag(300, 50 + 34 + 8 + 34 + 2 + 12, viewer.x_of(middle), 50 + 34 + 8 + 34 + 2 + 12);
  CHECK(playback.cursor() == doctest::Approx(static_cast<double>(middle)).epsilon(0.01));
  CHECK_FALSE(viewer.model.view.range);
  CHECK(viewer.y_of(1, middle + (step.end - step.start) / 4) < 0);
  CHECK(viewer.y_of(1, middle - (step.end - step.start) / 4) > 0);
  viewer.press(keys::escape);
  CHECK_FALSE(playback.active());
}
