// The bar of the mean step and its sentences, compared with a step worked out by hand.
#include <doctest/doctest.h>

#include <set>
#include <tuple>

#include "tests/viz/worked_step.h"
#include "viz/data/layout/step_sentences.h"
#include "viz/data/step/mean_step.h"
#include "viz/read/timeline/reader.h"

using namespace lockstep;
using namespace lockstep::viz;

namespace {

BubbleSeries::Point point_of(const Timeline& timeline, std::size_t index) {
  BubbleSeries series;
  series.update(timeline, std::chrono::hours{1});
  const BubbleSeries::Point* found = series.find(timeline, index);
  REQUIRE(found);
  return *found;
}

Picoseconds sum_of(const std::vector<MeanPart>& parts) {
  Picoseconds sum = 0;
  for (const MeanPart& part : parts) sum += part.sum;
  return sum;
}

}  // namespace

TEST_CASE("the bar of a step worked by hand adds up to the step") {
  Timeline timeline;
  add_worked_step(timeline);
  const BubbleSeries::Point point = point_of(timeline, 0);
  CHECK(point.account.length == 54 * us);
  const std::vector<MeanPart> parts = mean_step(point.account);
  using Kind = MeanPart::Kind;
  const std::vector<std::tuple<Kind, std::string, Picoseconds>> expected{
      {Kind::compute, "compute", (26 + 28) * us},
      {Kind::optimizer, "optimizer", (4 + 4) * us},
      {Kind::exposed, "dp", (20 + 10) * us},
      {Kind::exposed, "tp", (4 + 2) * us},
      {Kind::ended, "ended", 10 * us},
  };
  REQUIRE(parts.size() == expected.size());
  for (std::size_t i = 0; i < parts.size(); ++i)
    CHECK(std::tuple{parts[i].kind, parts[i].name, parts[i].sum} == expected[i]);
  CHECK(sum_of(parts) == 2 * point.account.length);
  CHECK(not_computing_share(point.account) == doctest::Approx(46.0 / 108));
  CHECK(not_computing(point.account.ranks[1].sums) == 22 * us);
  CHECK(longest_step(point.account) == Interval{0, 54 * us});
  CHECK(step_sentences(point) ==
        std::vector<std::string>{
            "dp: 15.0 µs exposed per rank (transfer 14.5 µs and latency 0.5 µs); its "
            "messages take 19.5 µs on the lanes, 10.3 % of it hidden.",
            "tp: 3.00 µs exposed per rank (transfer 1.50 µs, latency 1.00 µs and late peer "
            "0.50 µs); its messages take 2.00 µs on the lanes, none of it hidden."});
  for (std::size_t i = 2; i < 4; ++i)
    CHECK(part_sentence(point.account, parts[i]) == step_sentences(point)[i - 2]);
  CHECK(part_sentence(point.account, parts[0]).empty());
}

TEST_CASE("the bars of a pipeline's steps add up, and the bubble has its parts") {
  Timeline timeline;
  read_sample(sample_traces(sample_1f1b(4, 8, 3)), timeline);
  for (std::size_t i = 0; i < timeline.steps().size(); ++i) {
    const BubbleSeries::Point point = point_of(timeline, i);
    CHECK(sum_of(mean_step(point.account)) == 4 * point.account.length);
  }
  // F = 1 ms, B = 2 ms, free messages, two stages: rank 1 waits 1 ms for its first forward, and
  // rank 0 waits 2 ms for B0 on rank 1 (F0 1-2, B0 2-4), and 1 ms for B2 (F2 7-8, B2 8-10):
  SampleRun run = sample_1f1b(2, 3, 2);
  run.times.cluster.within = {};
  Timeline two;
  read_sample(sample_traces(run), two);
  const BubbleSeries::Point point = point_of(two, 0);
  const StepSums sum = point.account.sum();
  CHECK(sum.warm_up == ms);
  CHECK(sum.waiting == 3 * ms);
  CHECK(sum.bubble() + sum.exposed().sum() + sum.ended + sum.compute + sum.optimizer ==
        2 * point.account.length);
}

TEST_CASE("shares that would read as none or all of it say how small the rest is") {
  CHECK(hidden_share_words({1000, 0}) == "none of it hidden");
  CHECK(hidden_share_words({1000, 1000}) == "all of it hidden");
  CHECK(hidden_share_words({10'000, 1}) == "less than 0.1 % of it hidden");
  CHECK(hidden_share_words({10'000, 9'999}) == "more than 99.9 % of it hidden");
  CHECK(hidden_share_words({1000, 250}) == "25.0 % of it hidden");
}

TEST_CASE("the internal bubble of the rank that takes longest") {
  BubbleSeries::Point point;
  point.bubble = {.window = 100 * us, .busy = 320 * us, .ranks = 4};
  point.internal = {.window = 80 * us, .busy = 60 * us, .ranks = 1};
  point.longest_rank = 2;
  CHECK(step_sentences(point) ==
        std::vector<std::string>{"Rank 2, which takes longest from its first to its last action, "
                                 "runs no action for 25.0 % of that time."});
  point.internal.busy = 80 * us;
  CHECK(step_sentences(point).empty());
  SampleRun run = sample_1f1b(4, 8, 1);
  run.times.stages[3].forward *= 2;
  run.times.stages[3].backward *= 2;
  Timeline timeline;
  read_sample(sample_traces(run), timeline);
  const BubbleSeries::Point sample = point_of(timeline, 0);
  CHECK(sample.internal.window == internal_bubble(timeline, 0)->window);
  CHECK(sample.internal.busy == internal_bubble(timeline, 0)->busy);
  CHECK(sample.longest_rank == 0);
}

TEST_CASE("an axis keeps its colour, and the axes of a step have different ones") {
  const std::vector<std::string> axes{"dp", "tp", "pp"},
      others{"norm", "pp", "ends", "tp", "dp_cp"};
  const auto slots = axis_slots(axes), more = axis_slots(others);
  CHECK(slots[1] == more[3]);
  CHECK(slots[2] == more[1]);
  CHECK(slots[0] == more[4]);
  CHECK(std::set<int>(more.begin(), more.end()).size() == others.size());
  for (const int slot : axis_slots(std::vector<std::string>(20, "x")))
    CHECK(slot < axis_slot_count);
}

TEST_CASE("sums of steps with different axes") {
  StepSums sums{.compute = 1, .axes = {{.transfer = 2}, {.latency = 3}}};
  std::vector<std::string> names{"tp"};
  join_axes(names, {"dp", "tp"});
  CHECK(names == std::vector<std::string>{"tp", "dp"});
  const StepSums aligned = with_axes(sums, {"dp", "tp"}, names);
  CHECK(aligned.axes == std::vector<Exposed>{{.latency = 3}, {.transfer = 2}});
  CHECK(aligned.total() == 6);
  CHECK(sorted_axes({"a", "b", "c"}, {.axes = {{1, 0, 0}, {0, 2, 0}, {0, 0, 1}}}) ==
        std::vector<std::string>{"b", "a", "c"});
}
