#include <doctest/doctest.h>

#include "tests/viz/sample_run.h"
#include "viz/data/selection/span_search.h"
#include "viz/data/window/view_state.h"
#include "viz/read/timeline/reader.h"

using namespace lockstep;
using namespace lockstep::viz;

namespace {

struct Sample {
  Timeline timeline;
  Sample() { read_sample(sample_traces(sample_1f1b(4, 8, 2)), timeline); }
  std::int64_t count(std::string_view query) const {
    SpanSearch::Count count;
    SpanSearch{query}.count(timeline, count, std::chrono::hours{1});
    REQUIRE(count.complete);
    return count.found;
  }
};

}  // namespace

TEST_CASE("a search finds spans by label, number, name and category") {
  const Sample sample;
  CHECK(sample.count("F3") == 4 * 2);  // on 4 ranks, in 2 steps
  CHECK(sample.count("f3") == 4 * 2);
  CHECK(sample.count("F3 step:1") == 4);
  CHECK(sample.count("F3 step:1 rank:2") == 1);
  CHECK(sample.count("B0 stage:3") == 2);
  CHECK(sample.count("AdamW") == 4 * 2);
  CHECK(sample.count("optim") == 4 * 2);
  CHECK(sample.count("send") == 2 * 2 * 3 * 8);
  CHECK(sample.count("send peer:0") == 2 * 8);
  CHECK(sample.count("nothing like it") == 0);
  CHECK(sample.count("rank:x") == 0);
  CHECK(SpanSearch{"   "}.empty());
}

TEST_CASE("next and previous match, in order of time") {
  const Sample sample;
  const SpanSearch search{"F0 rank:1"};
  const auto first = search.next(sample.timeline, -1, 1);
  REQUIRE(first);
  CHECK(first->rank->rank == 1);
  CHECK(first->span.step == 0);
  const auto second = search.next(sample.timeline, first->span.start, 1);
  REQUIRE(second);
  CHECK(second->span.step == 1);
  CHECK_FALSE(search.next(sample.timeline, second->span.start, 1));
  const auto back = search.next(sample.timeline, second->span.start, -1);
  REQUIRE(back);
  CHECK(back->span.start == first->span.start);
}

TEST_CASE("the neighbours of a span on its lane, without waits, and the nearest span") {
  Timeline timeline;
  const auto add = [&](Picoseconds start, Picoseconds end, Category category) {
    TimelineSpan span{.start = start, .end = end};
    span.category = category;
    timeline.add(0, 0, span);
  };
  add(0, 10, Category::forward);
  add(10, 20, Category::wait);
  add(20, 30, Category::backward);
  timeline.settle();
  const Lane& lane = *timeline.find_rank(0)->compute();
  CHECK(neighbour(lane, Band::action, 10, 1)->start == 20);
  CHECK(neighbour(lane, Band::action, 20, -1)->start == 0);
  CHECK_FALSE(neighbour(lane, Band::action, 30, 1));
  CHECK_FALSE(neighbour(lane, Band::action, 0, -1));
  CHECK(nearest(lane, Band::action, 1000)->start == 20);
  CHECK(nearest(lane, Band::action, -5)->start == 0);
  CHECK_FALSE(nearest(lane, Band::kernel, 0));
}

TEST_CASE("a second mark at the same place removes the first") {
  ViewState view;
  view.mark({100, 100}, 5);
  view.mark({300, 400}, 5);
  CHECK(view.marks.size() == 2);
  view.mark({103, 103}, 5);
  REQUIRE(view.marks.size() == 1);
  CHECK(view.marks[0] == Interval{300, 400});
}

TEST_CASE("matches and a range's statistics follow a run that goes on") {
  Sample sample;
  ViewState view;
  view.set_query("F0 rank:0", sample.timeline);
  CHECK(view.found == 2);
  constexpr Picoseconds more = 5'000'000'000;
  const Picoseconds end = sample.timeline.end();
  const Interval range{0, end + 2 * more};
  view.range = range_statistics(sample.timeline, range);
  view.refresh(sample.timeline);
  const Picoseconds before = view.range->ranks[0].in_no_step;
  TimelineSpan span{.start = end, .end = end + more, .step = 2, .stage = 0, .microbatch = 0};
  span.category = Category::forward;
  sample.timeline.add(0, 0, span);
  sample.timeline.settle();
  view.refresh(sample.timeline);
  CHECK(view.found == 3);
  CHECK(view.range->ranks[0].in_no_step == before - more);
}

TEST_CASE("a search of many spans counts a little per frame, and in the end all of them") {
  Timeline timeline;
  const NameId names[] = {timeline.intern("alpha"), timeline.intern("Beta"), timeline.intern("x")};
  constexpr int spans = 300'000;
  for (int i = 0; i < spans; ++i) {
    TimelineSpan span{.start = 10 * i, .end = 10 * i + 9, .name = names[i % 3]};
    span.category = i % 2 == 0 ? Category::communication : Category::kernel;
    timeline.add(i % 7, i % 3, span);
  }
  timeline.settle();
  const SpanSearch search{"a"};  // not in "x", but in the category "communication"
  SpanSearch::Count count;
  int calls = 0;
  for (std::int64_t last = 0; !count.complete; ++calls) {
    search.count(timeline, count, std::chrono::microseconds{1});
    REQUIRE(count.found >= last);
    last = count.found;
  }
  CHECK(calls > 20);
  CHECK(count.found == spans * 5 / 6);

  ViewState view;
  view.set_query("beta", timeline);
  for (int i = 0; view.counting() && i < 100'000; ++i) view.refresh(timeline);
  CHECK(view.found == spans / 3);
}
