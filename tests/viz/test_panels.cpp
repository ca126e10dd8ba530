// The panels that each kind of run gets, and the words on them.
#include <doctest/doctest.h>

#include <array>
#include <numeric>

#include "core/base/error.h"
#include "core/timeline/reader.h"
#include "tests/viz/sample_run.h"
#include "viz/app/options.h"
#include "viz/data/panels.h"
#include "viz/data/step_sentences.h"
#include "viz/data/words.h"

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
  CHECK(panels.choices == std::vector{Panel::what_if, Panel::traffic, Panel::retime});
  CHECK(panels.shown(std::nullopt) == Panel::what_if);
  CHECK(panels.shown(Panel::traffic) == Panel::traffic);
  CHECK(panels.next(std::nullopt) == Panel::traffic);
  CHECK(panels.next(Panel::traffic) == Panel::retime);
  CHECK(panels.next(Panel::retime) == Panel::what_if);
  // Without messages there is no traffic to choose.
  CHECK(panels_of(timeline).shown(Panel::traffic) == Panel::what_if);
  CHECK(PanelRow{}.shown(Panel::traffic) == std::nullopt);
  // The description of the run says so before any span arrives.
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
  // Stages with one number are no pipeline.
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
    return parse_options(3, words.data()).options.panel;
  };
  CHECK(parsed("traffic") == Panel::traffic);
  const std::string all = "--panel rockets: give one of " + panel_names(choosable_panels());
  CHECK_THROWS_WITH_AS(parsed("rockets"), all.c_str(), UsageError);
}

TEST_CASE("a run without communication, without compute or without anything gets no share") {
  Timeline alone;
  train(alone, 0);
  CHECK(panels_of(alone) == row({Panel::loss, Panel::memory}, {Panel::retime}));
  // Collectives alone have no compute that could hide them.
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

TEST_CASE("the bubble's figures in sentences") {
  BubbleSeries::Point point;
  point.bubble = {.window = 100 * us, .busy = 320 * us, .ranks = 4};  // 20 of 100 µs idle
  point.internal = {.window = 80 * us, .busy = 60 * us, .ranks = 1};
  point.longest_rank = 2;
  auto words = bubble_sentences(point, nullptr, 4);
  REQUIRE(words.size() == 2);  // none about communication
  CHECK(words[0] == "Idle per rank: 20.00 µs of 100.0 µs.");
  CHECK(words[1] ==
        "Rank 2, which takes longest from its first to its last action, is idle for 25.0 % of that "
        "time.");
  point.internal.busy = 80 * us;
  point.overlap = {.communication = 40 * us, .hidden = 10 * us};
  words = bubble_sentences(point, nullptr, 4);
  REQUIRE(words.size() == 2);  // none about idle time within the pipeline
  CHECK(words[1] == "Communication: 10.00 µs per rank, 25.0 % hidden by compute.");
  point.overlap.hidden = 0;
  CHECK(bubble_sentences(point, nullptr, 4)[1] ==
        "Communication: 10.00 µs per rank, not hidden by compute.");
  // With the analysis of the step: the causes, as means over ranks, and the stage on the path.
  ExplainedStep explained;
  IdleTimes causes{};
  causes[static_cast<std::size_t>(IdleCause::warm_up)] = 20 * us;
  causes[static_cast<std::size_t>(IdleCause::waiting)] = 60 * us;
  explained.idle = {{{.time = {0, 80 * us}, .causes = causes}}, {}, {}, {}};
  CHECK(bubble_sentences(point, &explained, 4)[0] ==
        "Idle per rank: 20.00 µs of 100.0 µs (waiting 15.00 µs, warm-up 5.00 µs).");
}

TEST_CASE("the stage that sets the pace") {
  SampleRun run = sample_1f1b(4, 8, 1);
  run.times.stages[3].forward *= 2;
  run.times.stages[3].backward *= 2;
  Timeline timeline;
  read_sample(sample_traces(run), timeline);
  BubbleSeries series;
  series.update(timeline, std::chrono::hours{1});
  const BubbleSeries::Point point = *series.find(timeline, 0);
  // The ranks' idle times are those of the bubble.
  REQUIRE(point.idle.size() == 4);
  CHECK(std::accumulate(point.idle.begin(), point.idle.end(), Picoseconds{0}) ==
        point.bubble.idle());
  CHECK(point.length == point.bubble.window);
  CHECK(point.internal.window == internal_bubble(timeline, 0)->window);
  CHECK(point.internal.busy == internal_bubble(timeline, 0)->busy);
  CHECK(point.longest_rank == 0);
  Explanations explanations;
  explanations.update(std::chrono::hours{1});
  const ExplainedStep* explained = explanations.find(timeline, timeline.steps()[0]);
  REQUIRE(explained);
  REQUIRE(explained->path);
  // All actions of the slow stage are on the path.
  const auto pace = pace_setter(*explained->path);
  REQUIRE(pace);
  CHECK(pace->first == 3);
  CHECK(pace->second == 8 * (2 + 4) * ms);
  CHECK(bubble_sentences(point, explained, 4)[1] == "The critical path runs through stage 3 for " +
                                                        duration_words(pace->second) +
                                                        ": this stage sets the pace.");
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

TEST_CASE("the straggler in sentences") {
  Timeline timeline;
  Straggler late{.rank = 5,
                 .operation = timeline.intern("all_reduce"),
                 .group = timeline.intern("dp"),
                 .sequence = 3,
                 .late = 25 * us,
                 .compute = 227 * us,
                 .median_compute = 174 * us};
  CHECK(
      straggler_words(timeline, late, 265 * us) ==
      "Straggler: rank 5 enters all_reduce 3 (group dp) 25.00 µs after the median rank, because it "
      "computes for 227.0 µs instead of 174.0 µs. If it kept up, the step would take about "
      "53.00 µs less (20.0 %).");
  late.compute = late.median_compute;  // it is late for another reason
  CHECK(
      straggler_words(timeline, late, 0) ==
      "Straggler: rank 5 enters all_reduce 3 (group dp) 25.00 µs after the median rank. If it kept "
      "up, the step would take about 25.00 µs less.");
}

TEST_CASE("the spans of the straggler's collective say how late it is") {
  BubbleSeries::Point point{.step = 2};
  TimelineSpan span{.step = 2};
  span.name = 3;
  span.group = 4;
  span.sequence = 7;
  CHECK(late_words(point, span).empty());
  point.late = Straggler{.rank = 5, .operation = 3, .group = 4, .sequence = 7, .late = 25 * us};
  CHECK(late_words(point, span) == "rank 5 enters it 25.00 µs after the median rank");
  for (int TimelineSpan::*field : {&TimelineSpan::step, &TimelineSpan::sequence}) {
    TimelineSpan other = span;
    ++(other.*field);
    CHECK(late_words(point, other).empty());
  }
}

TEST_CASE("the figures of communication in sentences") {
  BubbleSeries::Point point;
  point.length = 100 * us;
  point.overlap = {.communication = 40 * us, .hidden = 10 * us};
  auto words = communication_sentences(point, 2);
  CHECK(
      words[0] ==
      "Each rank communicates for 20.00 µs of the step's 100.0 µs, and computes during 5.00 µs of "
      "that time.");
  CHECK(words[1] == "Compute never stalls for communication.");
  point.overlap.hidden = 0;
  CHECK(
      communication_sentences(point, 2)[0] ==
      "Each rank communicates for 20.00 µs of the step's 100.0 µs, and never computes meanwhile.");
  point.parts.transfer = 24 * us;
  point.parts.latency = 6 * us;
  words = communication_sentences(point, 2);
  CHECK(words[1] ==
        "Exposed: compute stalls for 15.00 µs per rank (transfer 12.00 µs, latency 3.00 µs).");
}
