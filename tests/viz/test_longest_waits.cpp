// The list of a step's longest waits.
#include <doctest/doctest.h>
#include <fmt/format.h>

#include "tests/viz/interactive.h"
#include "tests/viz/worked_step.h"
#include "viz/data/window/longest_waits.h"

using namespace lockstep;
using namespace lockstep::viz;

TEST_CASE("the longest waits of a worked step, with their causes and awaited ranks") {
  Timeline timeline;
  add_worked_step(timeline);
  Explanations explanations;
  explanations.update(std::chrono::seconds{10});
  const ExplainedStep* step = explanations.find(timeline, timeline.steps().front());
  REQUIRE(step);
  const auto words = [&](const LongWait& wait) {
    return fmt::format("{} for {}: {} µs, {}", wait.rank, wait.awaited.value_or(-1),
                       wait.duration() / us, piece_title(wait.piece, wait.axis));
  };
  std::string all;
  for (const LongWait& wait : longest_waits(timeline, *step, 100)) all += words(wait) + "\n";
  // On rank 1, a message of tp is in flight from 12 to 13, and arrives until 14.
  CHECK(all ==
        "0 for 1: 19 µs, exposed wait: transfer, dp\n"
        "1 for 0: 10 µs, exposed wait: transfer, dp\n"
        "0 for 1: 1 µs, exposed wait: transfer, tp\n"  // its own message leaves
        "0 for 1: 1 µs, exposed wait: late peer, tp\n"
        "0 for 1: 1 µs, exposed wait: latency, tp\n"
        "1 for 0: 1 µs, exposed wait: latency, tp\n"
        "0 for 1: 1 µs, exposed wait: transfer, tp\n"
        "1 for 0: 1 µs, exposed wait: transfer, tp\n"
        "0 for 1: 1 µs, exposed wait: latency, dp\n");
  const auto two = longest_waits(timeline, *step, 2);
  REQUIRE(two.size() == 2);
  const auto place = two[0].place(timeline);
  REQUIRE(place);
  CHECK(place->rank->rank == 0);
  CHECK(place->lane->is_compute());
  CHECK(place->span.start == 31 * us);
  CHECK(place->span.end == 50 * us);
  CHECK_FALSE(two[0].place(Timeline{}));
}

TEST_CASE("a click on one of the longest waits goes there") {
  Interactive viewer{sample_1f1b(4, 8, 3)};
  viewer.model.view.panel = Panel::longest_waits;
  viewer.frame();
  viewer.frame();
  const auto& rows = viewer.screen.waits().rows();
  REQUIRE(rows.size() > 3);
  // In the fill of the pipeline, rank 3 waits longest.
  const Rect row = rows.front();
  viewer.click((row.left + row.right) / 2, (row.top + row.bottom) / 2);
  const Finding& selected = viewer.model.selected;
  REQUIRE(selected.kind == Finding::Kind::idle);
  REQUIRE(selected.piece);
  CHECK(is_bubble(selected.piece->part));
  const auto& steps = viewer.model.timeline.steps();
  const ExplainedStep* explained = viewer.model.explanations.find(
      viewer.model.timeline, steps[described_step(viewer.model).value()]);
  REQUIRE(explained);
  CHECK(selected.span.duration() ==
        longest_waits(viewer.model.timeline, *explained, 1).front().duration());
}
