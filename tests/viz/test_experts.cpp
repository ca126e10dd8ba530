// The load of the experts: compared with an example worked out by hand, and in a context without a
// window.
#include <doctest/doctest.h>

#include "core/trace/format.h"
#include "core/trace/recorder.h"
#include "tests/viz/interactive.h"
#include "viz/data/step/expert_load.h"
#include "viz/read/timeline/reader.h"

using namespace lockstep;
using namespace lockstep::viz;

namespace {

using Lines = std::vector<std::string>;
using Series = std::vector<std::pair<std::string, std::int64_t>>;

/// Two ranks and one step. In layer 1, four experts are chosen by 10, 30, 0 and 20 tokens, over
/// both ranks and two microbatches; expert 1 drops 6 of them. In layer 3, all get 15.
void routed_by_hand(Timeline& timeline) {
  timeline.run().run = "worked";
  timeline.run().ranks = 2;
  for (int rank = 0; rank < 2; ++rank) {
    Recorder recorder;
    recorder.set_step(0);
    const auto count = [&](int layer, const Series& series) {
      recorder.counter("tokens per expert", layer, series, 50'000'000);
    };
    if (rank == 0) {
      count(1, {{"expert 0", 5},
                {"expert 1", 9},
                {"expert 1 dropped", 6},
                {"expert 2", 0},
                {"expert 3", 10}});
      count(1, {{"expert 0", 1}, {"expert 1", 5}, {"expert 2", 0}, {"expert 3", 2}});
    } else {
      count(1, {{"expert 0", 4}, {"expert 1", 10}, {"expert 2", 0}, {"expert 3", 8}});
      recorder.set_step(1);  // not this step's
      count(1, {{"expert 0", 1000}});
      recorder.set_step(0);
    }
    if (rank == 0)
      count(3, {{"expert 0", 7}, {"expert 1", 8}, {"expert 2", 7}, {"expert 3", 8}});
    else
      count(3, {{"expert 0", 8}, {"expert 1", 7}, {"expert 2", 8}, {"expert 3", 7}});
    for (const char* name : {"expert", "expert x", "expert 1 lost", "tokens"})
      count(3, {{name, 1}});  // not the series of an expert
    std::string text;
    recorder.take([&](const TraceEvent& event) { append_line(text, rank, event); });
    TraceReader reader{timeline};
    reader.feed(text);
    reader.finish();
    TimelineSpan step{.start = 0, .end = 100 * us, .step = 0};
    step.category = Category::step;
    timeline.add(rank, 0, step);
    step.category = Category::forward;
    timeline.add(rank, 0, step);
  }
  timeline.settle();
}

}  // namespace

TEST_CASE("the experts' counter is found among others") {
  Timeline timeline;
  Recorder recorder;
  recorder.set_step(0);
  recorder.counter("queue", 0, {{"length", 3}}, 10);
  recorder.counter("tokens per expert", 0, {{"expert 0", 5}}, 20);
  std::string text;
  recorder.take([&](const TraceEvent& event) { append_line(text, 0, event); });
  TraceReader reader{timeline};
  reader.feed(text);
  reader.finish();
  CHECK(counts_experts(timeline));
}

TEST_CASE("the tokens of each expert, summed over ranks and microbatches") {
  Timeline timeline;
  routed_by_hand(timeline);
  CHECK(counts_experts(timeline));
  const ExpertLoad load = expert_load(timeline, 0);
  REQUIRE(load.layers.size() == 2);
  const LayerLoad& uneven = load.layers[0];
  CHECK(uneven.layer == 1);
  CHECK(uneven.accepted == std::vector<std::int64_t>{10, 24, 0, 20});
  CHECK(uneven.dropped == std::vector<std::int64_t>{0, 6, 0, 0});
  CHECK(uneven.sum() == 60);
  CHECK(uneven.mean() == 15);
  CHECK(uneven.busiest() == 1);
  CHECK(uneven.imbalance() == 2);
  CHECK(load.layers[1].layer == 3);
  CHECK(load.layers[1].accepted == std::vector<std::int64_t>(4, 15));
  CHECK(load.layers[1].imbalance() == 1);
  CHECK(load.highest() == 30);
  CHECK(load.least_balanced() == 0);
  CHECK(expert_load(timeline, 1).layers.size() == 1);
  CHECK(expert_load(timeline, 2).layers.empty());

  CHECK(load_sentences(load, std::nullopt) ==
        Lines{"expert 1 of layer 1 is the busiest: 30 tokens, 2 times the mean",
              "mean: 15 tokens per expert and layer",
              "6 of 120 choices of an expert are dropped because it is full (5.0 %)"});
  CHECK(load_sentences(load, 1) == Lines{"All experts get equally many tokens.",
                                         "mean: 15 tokens per expert", "No token is dropped."});
  CHECK(expert_words(uneven, 1) == Lines{"expert 1 of layer 1",
                                         "chosen by 30 tokens, 2 times the mean of 15",
                                         "6 of them dropped, because it is full"});
  CHECK(expert_words(uneven, 2).back() == "chosen by 0 tokens, 0 times the mean of 15");
}

TEST_CASE("the panel of experts: a bar under the cursor, and one layer alone") {
  Interactive viewer{routed_by_hand};
  const auto& choices = viewer.model.panels.choices;
  CHECK(choices == std::vector{Panel::experts, Panel::retime});
  const ExpertsView& view = viewer.screen.experts();
  viewer.move(800, 890);
  REQUIRE(view.load().layers.size() == 2);
  REQUIRE_FALSE(view.explanation().empty());
  CHECK(view.explanation().front().starts_with("expert 1 of layer 1 is the busiest"));
  const auto bar = view.centre_of(0, 3);
  REQUIRE(bar);
  viewer.move(bar->x, bar->y);
  CHECK(view.explanation() == Lines{"expert 3 of layer 1",
                                    "chosen by 20 tokens, 1.33 times the mean of 15",
                                    "click: this layer alone"});
  const auto other = view.centre_of(1, 0);
  REQUIRE(other);
  viewer.click(other->x, other->y);
  CHECK(viewer.model.view.expert_layer == 3);
  CHECK_FALSE(view.centre_of(0, 3));
  viewer.move(800, 890);
  CHECK(view.explanation().front() == "All experts get equally many tokens.");
  const auto again = view.centre_of(1, 2);
  REQUIRE(again);
  viewer.click(again->x, again->y);
  CHECK(viewer.model.view.expert_layer == std::nullopt);
  CHECK(view.centre_of(0, 3));
}
