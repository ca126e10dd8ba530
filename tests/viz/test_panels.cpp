// The panels of each kind of run, and their text.
#include <doctest/doctest.h>

#include <array>

#include "core/base/error.h"
#include "tests/viz/sample_run.h"
#include "viz/app/options.h"
#include "viz/data/window/panels.h"
#include "viz/read/timeline/reader.h"

using namespace lockstep;
using namespace lockstep::viz;

namespace {

PanelRow row(std::vector<Panel> fixed, std::vector<Panel> choices) {
  return {.fixed = std::move(fixed), .choices = std::move(choices)};
}

void add(Timeline& timeline, int rank, int tid, Category category, Picoseconds start,
         Picoseconds end, int stage = -1) {
  TimelineSpan span{.start = start * us, .end = end * us, .step = 0, .stage = stage};
  span.category = category;
  timeline.add(rank, tid, span);
}

PanelRow panels_of(Timeline& timeline) {
  timeline.settle();
  return panels_for(contents_of(timeline));
}

/// A training step of one rank: compute, memory and a loss.
void train(Timeline& timeline, int rank, int stage = -1) {
  add(timeline, rank, 0, Category::forward, 0, 10, stage);
  add(timeline, rank, 0, Category::backward, 10, 30, stage);
  MemorySample memory;
  memory.bytes[0] = 1000;
  timeline.sample_memory(rank, memory);
  timeline.rank(rank).losses.push_back({30 * us, 2.5});
}

}  // namespace

TEST_CASE("a pipeline gets the bubble and the what-if simulation") {
  Timeline timeline;
  for (int rank = 0; rank < 2; ++rank) train(timeline, rank, rank);
  CHECK(panels_of(timeline) ==
        row({Panel::bubble, Panel::loss, Panel::memory}, {Panel::what_if, Panel::retime}));
  Timeline sample;
  read_sample(sample_traces(sample_1f1b(4, 8, 1)), sample);
  const RunContents contents = contents_of(sample);
  CHECK(contents.pipeline);
  const PanelRow panels = panels_for(contents);
  CHECK(panels.choices == std::vector{Panel::what_if, Panel::traffic, Panel::plan,
                                      Panel::longest_waits, Panel::retime});
  CHECK(panels.shown(std::nullopt) == Panel::what_if);
  CHECK(panels.shown(Panel::traffic) == Panel::traffic);
  CHECK(panels.next(std::nullopt) == Panel::traffic);
  CHECK(panels.next(Panel::traffic) == Panel::plan);
  CHECK(panels.next(Panel::plan) == Panel::longest_waits);
  CHECK(panels.next(Panel::longest_waits) == Panel::retime);
  CHECK(panels.next(Panel::retime) == Panel::what_if);
  // Without messages, the traffic panel is not offered.
  CHECK(panels_of(timeline).shown(Panel::traffic) == Panel::what_if);
  CHECK(PanelRow{}.shown(Panel::traffic) == std::nullopt);
  // The description of the run already says so before any span arrives.
  Timeline announced;
  announced.predict({.stages = 2, .microbatches = 4});
  CHECK(contents_of(announced).pipeline);
}

TEST_CASE("data, tensor and expert parallelism get the overlap of communication") {
  Timeline timeline;
  for (int rank = 0; rank < 2; ++rank) {
    train(timeline, rank);
    add(timeline, rank, 1, Category::communication, 20, 35);
  }
  CHECK(panels_of(timeline) ==
        row({Panel::communication, Panel::loss, Panel::memory}, {Panel::traffic, Panel::retime}));
  // Stages that all have the same number form no pipeline.
  Timeline staged;
  train(staged, 0, 0);
  train(staged, 1, 0);
  staged.predict({.stages = 1});
  add(staged, 0, 1, Category::communication, 20, 35);
  CHECK(panels_of(staged) ==
        row({Panel::communication, Panel::loss, Panel::memory}, {Panel::traffic, Panel::retime}));
}

TEST_CASE(
    "the collectives of data parallelism come first, but after the simulation of a pipeline") {
  for (const int stages : {1, 2}) {
    Timeline timeline;
    for (int rank = 0; rank < 2; ++rank) {
      train(timeline, rank, rank % stages);
      TimelineSpan span{.start = 20 * us, .end = 35 * us, .step = 0};
      span.category = Category::communication;
      span.name = timeline.intern("all_reduce");
      timeline.add(rank, 1, span);
    }
    const std::vector<Panel> choices = panels_of(timeline).choices;
    if (stages == 1) CHECK(choices == std::vector{Panel::buckets, Panel::traffic, Panel::retime});
    if (stages == 2)
      CHECK(choices == std::vector{Panel::what_if, Panel::buckets, Panel::traffic, Panel::retime});
  }
}

TEST_CASE("the table of panels has a row for each, in order") {
  for (std::size_t i = 0; i < all_panels.size(); ++i)
    CHECK(static_cast<std::size_t>(all_panels[i].panel) == i);
  CHECK(all_panels.back().panel == Panel::retime);
}

TEST_CASE("a panel by its name on the command line") {
  CHECK(panel_named("what-if") == Panel::what_if);
  CHECK(panel_named("buckets") == Panel::buckets);
  CHECK(panel_named("Buckets") == Panel::buckets);
  CHECK(panel_named("What if") == Panel::what_if);
  CHECK(panel_named("loss") == std::nullopt);  // it is always shown
  CHECK(panel_names({Panel::what_if, Panel::traffic}) == "what-if, traffic");
  const auto parsed = [](std::string name) {
    std::string program = "lockstep_view", option = "--panel";
    std::array<char*, 4> words{program.data(), option.data(), name.data(), nullptr};
    return parse_options(3, words.data()).value().panel;
  };
  CHECK(parsed("traffic") == Panel::traffic);
  const std::string all = "--panel rockets: give one of " + panel_names(choosable_panels());
  CHECK_THROWS_WITH_AS(parsed("rockets"), all.c_str(), UsageError);
}

TEST_CASE("a run without communication, without compute or without anything gets no share") {
  Timeline alone;
  train(alone, 0);
  CHECK(panels_of(alone) == row({Panel::loss, Panel::memory}, {Panel::retime}));
  // Collectives alone leave no compute that could hide them.
  Timeline collectives;
  add(collectives, 0, 1, Category::communication, 0, 5);
  CHECK(panels_of(collectives) == row({}, {Panel::traffic, Panel::retime}));
  CHECK(contents_of(collectives).communication);
  Timeline stored;
  stored.rank(0).slices = "{}";
  CHECK(panels_of(stored) == row({}, {Panel::shards}));
  Timeline nothing;
  CHECK(panels_of(nothing) == row({}, {}));
}

TEST_CASE("if there is no room for all buttons, those around the shown panel stay") {
  using Range = std::pair<std::size_t, std::size_t>;
  const std::vector<float> widths{50, 60, 70, 80};
  CHECK(range_that_fits(widths, 0, 260) == Range{0, 4});
  CHECK(range_that_fits(widths, 0, 259) == Range{0, 3});
  CHECK(range_that_fits(widths, 3, 259) == Range{1, 4});
  CHECK(range_that_fits(widths, 2, 185) == Range{0, 3});
  CHECK(range_that_fits(widths, 2, 130) == Range{1, 3});
  CHECK(range_that_fits(widths, 1, 10) == Range{1, 2});  // the shown one in any case
}
