// The collectives of data parallelism and the compute that hides them: compared with an example
// worked out by hand, with the analysis of viz/read/timeline, and in a context without a window.
#include <doctest/doctest.h>

#include <random>

#include "tests/viz/interactive.h"
#include "tests/viz/sample_run.h"
#include "viz/data/step/buckets.h"
#include "viz/read/timeline/analysis.h"

using namespace lockstep;
using namespace lockstep::viz;

namespace {

using Lines = std::vector<std::string>;

void add(Timeline& timeline, int rank, int tid, Category category, Interval time,
         const char* name = "", int sequence = -1, std::int64_t bytes = -1,
         const char* group = "world") {
  TimelineSpan span{.start = time.start * us, .end = time.end * us, .bytes = bytes, .step = 0};
  span.category = category;
  span.name = timeline.intern(name);
  span.sequence = sequence;
  if (sequence >= 0) {
    span.group = timeline.intern(group);
    span.group_size = 2;
  }
  timeline.add(rank, tid, span);
}

/// Two ranks run four all-reduces, the last one of half the size. A message takes 1 µs longer to
/// arrive than to leave. The backward pass ends at 60 µs on rank 0 and at 55 µs on rank 1; both
/// ranks then wait for the third all-reduce until 71 µs, immediately issue the fourth, and wait for
/// it until 77 µs.
void buckets_by_hand(Timeline& timeline) {
  timeline.run().clock = "modelled";
  timeline.run().run = "worked";
  timeline.run().ranks = 2;
  timeline.run().mesh = {{"dp", 2}};
  for (int rank = 0; rank < 2; ++rank) {
    const Picoseconds backward_end = rank == 0 ? 60 : 55;
    add(timeline, rank, 0, Category::forward, {0, 20});
    add(timeline, rank, 0, Category::backward, {20, backward_end});
    const Interval sends[] = {{30, 40}, {40, 50}, {55, 70}, {71, 76}};
    for (int i = 0; i < 4; ++i) {
      const auto [start, end] = sends[i];
      const std::int64_t bytes = i < 3 ? 1000 : 500;
      add(timeline, rank, 1, Category::communication, {start, end}, "all_reduce", i, bytes);
      add(timeline, rank, 2, Category::communication, {start + 1, end + 1}, "all_reduce", i, bytes);
      const auto message = static_cast<std::uint64_t>(10 * rank + i);
      timeline.flow_start(message, rank, 1, start * us);
      timeline.flow_end(message, 1 - rank, 2, (end + 1) * us);
    }
    add(timeline, rank, 0, Category::wait, {backward_end, 71}, "all_reduce", 2);
    add(timeline, rank, 0, Category::wait, {71, 77}, "all_reduce", 3);
    add(timeline, rank, 0, Category::optimizer, {77, 100});
    add(timeline, rank, 0, Category::step, {0, 100}, "step");
  }
  timeline.settle();
}

StepBuckets buckets_of(const Timeline& timeline, int rank) {
  return step_buckets(timeline, step_account(timeline, 0), *timeline.find_rank(rank));
}

/// The sums over all buckets of a rank are those of the step's account.
void check_sums(const Timeline& timeline, int rank) {
  const StepBuckets step = buckets_of(timeline, rank);
  const Overlap overlap = communication_overlap(timeline, *timeline.find_rank(rank), 0);
  const StepAccount account = step_account(timeline, 0);
  const Exposed parts = account.find(rank)->sums.exposed();
  Picoseconds sum = 0, hidden = 0;
  Exposed exposed;
  for (const Bucket& bucket : step.buckets) {
    sum += bucket.communication();
    hidden += length(bucket.hidden);
    exposed += bucket.parts;
    CHECK(bucket.parts.sum() == length(bucket.exposed));
  }
  CHECK(sum == overlap.communication);
  CHECK(hidden == overlap.hidden);
  CHECK(exposed == parts);
  CHECK(step.overlap.communication == sum);
  CHECK(step.overlap.hidden == hidden);
  CHECK(step.exposed == parts);
  CHECK(step.other_exposed == Exposed{});
  CHECK(step.others.empty());
}

}  // namespace

TEST_CASE("the buckets of a step, worked by hand") {
  Timeline timeline;
  buckets_by_hand(timeline);
  const StepBuckets step = buckets_of(timeline, 0);
  REQUIRE(step.buckets.size() == 4);
  const auto& [first, second, third, fourth] =
      std::tie(step.buckets[0], step.buckets[1], step.buckets[2], step.buckets[3]);
  CHECK(first.time == Interval{30 * us, 41 * us});
  CHECK(first.bytes == 1000);  // sent once, although there is a span on either lane
  CHECK(first.hidden == Intervals{{30 * us, 41 * us}});
  CHECK(first.not_hidden.empty());
  CHECK(first.exposed.empty());
  // From 40 to 41 µs, both are in flight.
  CHECK(second.time == Interval{40 * us, 51 * us});
  CHECK(second.hidden == Intervals{{41 * us, 51 * us}});
  CHECK(third.hidden == Intervals{{55 * us, 60 * us}});
  CHECK(third.not_hidden == Intervals{{60 * us, 71 * us}});
  CHECK(third.exposed == Intervals{{60 * us, 71 * us}});
  CHECK(third.parts.latency == 0);
  CHECK(fourth.bytes == 500);
  CHECK(fourth.hidden.empty());
  CHECK(fourth.exposed == Intervals{{71 * us, 77 * us}});
  CHECK(fourth.parts.latency == us);
  CHECK(fourth.parts.transfer == 5 * us);
  CHECK(
      bucket_sentences(timeline, step) ==
      Lines{"Rank 0 sends 3.50 kB in 4 all_reduces, 0.50 kB to 1.00 kB each.",
            "Communication: 43.0 µs, 60.5 % hidden by compute.",
            "Exposed wait: compute stalls for 17.0 µs (transfer 16.0 µs, latency 1.0 µs).",
            "No computation is left to overlap 2 all_reduces after the last backward pass: 17.0 µs "
            "exposed."});
  CHECK(bucket_words(timeline, step, 2) ==
        Lines{"all_reduce 2, 3 of 4", "sends 1.00 kB in group world of 2 ranks",
              "from 55.0 µs to 71.0 µs of the step",
              "communication: 16.0 µs, 31.2 % hidden by compute",
              "exposed wait: compute stalls for 11.0 µs (transfer 11.0 µs)"});
  CHECK(bucket_words(timeline, step, 0).back() == "Compute never stalls for it.");
  check_sums(timeline, 0);
  check_sums(timeline, 1);
  // Rank 1's backward pass is shorter, so it hides less.
  const StepAccount account = step_account(timeline, 0);
  CHECK(most_exposed(account)->rank == 1);
  CHECK(most_exposed({}) == nullptr);
  CHECK(buckets_of(timeline, 1).buckets[2].exposed == Intervals{{55 * us, 71 * us}});
  CHECK(length(buckets_of(timeline, 1).buckets[2].hidden) == 0);
}

TEST_CASE("only collectives along dp are buckets") {
  Timeline timeline;
  timeline.run().mesh = {{"dp", 2}, {"tp", 2}};
  const auto is = [&](const char* name, const char* group) {
    TimelineSpan span;
    span.name = timeline.intern(name);
    span.group = timeline.intern(group);
    return is_of_bucket(timeline, span);
  };
  for (const char* name : {"all_reduce", "reduce_scatter", "all_gather"}) {
    CHECK(is(name, "dp"));
    CHECK(is(name, "dp_cp"));
    CHECK(is(name, "edp"));
    CHECK(is(name, "same experts"));
    CHECK(is(name, "sharers"));
    CHECK_FALSE(is(name, "tp"));
    CHECK_FALSE(is(name, "world"));  // has the ranks of tp, too
    CHECK_FALSE(is(name, "norm"));   // of a pipeline's stages, for clipping
    CHECK_FALSE(is(name, "ends"));   // of a pipeline, for the tied table
  }
  CHECK_FALSE(is("all_to_all", "dp"));
  CHECK_FALSE(is("send", "dp"));
  timeline.run().mesh = {{"dp", 1}, {"tp", 4}};
  CHECK_FALSE(is("all_reduce", "world"));
  timeline.run().mesh.clear();  // the trace does not say
  CHECK(is("all_reduce", "tp"));
}

TEST_CASE("communication outside the buckets is named separately") {
  Timeline timeline;
  timeline.run().mesh = {{"dp", 2}, {"tp", 2}};
  timeline.run().clock = "wall";
  add(timeline, 0, 0, Category::forward, {0, 30});
  add(timeline, 0, 0, Category::wait, {10, 14}, "all_reduce", 0, -1, "tp");
  add(timeline, 0, 1, Category::communication, {10, 14}, "all_reduce", 0, 8, "tp");
  add(timeline, 0, 0, Category::backward, {30, 60});
  add(timeline, 0, 0, Category::wait, {32, 35}, "all_gather", 0, -1, "dp");
  add(timeline, 0, 3, Category::communication, {25, 35}, "all_gather", 0, 8, "dp");
  add(timeline, 0, 3, Category::communication, {40, 50}, "reduce_scatter", 1, 8, "dp");
  timeline.settle();
  const StepBuckets step = buckets_of(timeline, 0);
  CHECK(step.buckets.size() == 2);
  CHECK(bucket_sentences(timeline, step) ==
        Lines{"Rank 0 takes part in 1 all_gather and 1 reduce_scatter.",
              "Communication: 20.0 µs, 85.0 % hidden by compute.",
              "Exposed wait: compute stalls for 3.00 µs (transfer 3.00 µs).",
              "Stalls: 3.00 µs in backward (1 all_gather).",
              "Other communication (tp all_reduce): 4.00 µs on the lanes, exposed 4.00 µs "
              "(transfer 4.00 "
              "µs)."});
}

TEST_CASE("compute stalls in the forward and the backward pass, and after it") {
  Timeline timeline;
  timeline.run().clock = "wall";
  add(timeline, 0, 0, Category::forward, {0, 30});
  add(timeline, 0, 0, Category::backward, {30, 60});
  for (int i = 0; i < 3; ++i) {
    const Interval time{10 + 25 * i, 15 + 25 * i};  // within the forward, the backward, after it
    add(timeline, 0, 0, Category::wait, time, "all_gather", i);
    add(timeline, 0, 1, Category::communication, time, "all_gather", i, 8);
  }
  timeline.settle();
  CHECK(bucket_sentences(timeline, buckets_of(timeline, 0)).back() ==
        "Stalls: 5.00 µs in forward (1 all_gather), 5.00 µs in backward (1 all_gather), "
        "5.00 µs after backward (1 all_gather).");
}

TEST_CASE("every stall is in one phase: before a pass, too") {
  Timeline timeline;
  timeline.run().clock = "wall";
  add(timeline, 0, 0, Category::wait, {0, 10}, "all_gather", 0);
  add(timeline, 0, 1, Category::communication, {0, 10}, "all_gather", 0, 8);
  add(timeline, 0, 0, Category::forward, {10, 30});
  add(timeline, 0, 0, Category::backward, {30, 60});
  add(timeline, 0, 0, Category::wait, {60, 65}, "reduce_scatter", 1);
  add(timeline, 0, 1, Category::communication, {60, 65}, "reduce_scatter", 1, 8);
  timeline.settle();
  CHECK(bucket_sentences(timeline, buckets_of(timeline, 0)).back() ==
        "Stalls: 10.0 µs between passes (1 all_gather), 5.0 µs after backward "
        "(1 reduce_scatter).");
}

TEST_CASE("buckets that all start after the last backward pass") {
  Timeline timeline;
  timeline.run().clock = "wall";
  add(timeline, 0, 0, Category::backward, {0, 30});
  add(timeline, 0, 0, Category::wait, {30, 40}, "all_reduce", 0);
  add(timeline, 0, 1, Category::communication, {30, 40}, "all_reduce", 0, 8);
  timeline.settle();
  const Lines sentences = bucket_sentences(timeline, buckets_of(timeline, 0));
  CHECK(sentences[1] == "Communication: 10.0 µs, not hidden by compute.");
  CHECK(sentences.back() ==
        "All of these collectives start after the last backward pass, so no computation is left to "
        "overlap them.");
}

TEST_CASE("sums over random buckets equal the analysis of core/trace") {
  std::mt19937 random{7};
  const auto below = [&](int most) { return static_cast<Picoseconds>(random() % most); };
  for (int trial = 0; trial < 60; ++trial) {
    Timeline timeline;
    timeline.run().clock = trial % 3 == 0 ? "" : trial % 3 == 1 ? "wall" : "modelled";
    timeline.run().mesh = {{"dp", 2}};
    for (Picoseconds at = 0; at < 200; at += 1 + below(12)) {
      const Picoseconds end = at + 1 + below(10);
      add(timeline, 0, 0, below(2) == 0 ? Category::forward : Category::backward, {at, end});
      if (timeline.run().clock != "" && below(2) == 0)
        add(timeline, 0, 0, Category::wait, {end, end + 1 + below(6)}, "all_reduce",
            static_cast<int>(below(8)));
      at = end + 6;
    }
    for (int sequence = 0; sequence < 8; ++sequence)
      for (int part = 0; part < 4; ++part) {
        const Picoseconds at = below(200), end = at + 1 + below(20);
        add(timeline, 0, 1 + part, Category::communication, {at, end}, "all_reduce", sequence, 8);
      }
    timeline.settle();
    CAPTURE(trial);
    check_sums(timeline, 0);
  }
}

TEST_CASE("the panel of buckets explains the bar under the cursor, and a click selects it") {
  Interactive viewer{buckets_by_hand};
  const Timeline& timeline = viewer.model.timeline;
  viewer.model.viewport.fit(timeline);
  viewer.move(800, 880);
  REQUIRE(viewer.model.panels.shown(viewer.model.view.panel) == Panel::buckets);
  const BucketsView& view = viewer.screen.buckets();
  REQUIRE(view.buckets().buckets.size() == 4);
  CHECK(view.buckets().rank == 1);
  CHECK(view.explanation().front() ==
        "Rank 1 (most exposed) sends 3.50 kB in 4 all_reduces, 0.50 kB to 1.00 kB each.");
  const ImVec2 bar = view.centre_of(2);
  viewer.move(bar.x, bar.y);
  REQUIRE(view.explanation().size() == 5);
  CHECK(view.explanation().front() == "Rank 1: all_reduce 2, 3 of 4");
  CHECK(view.explanation().back() ==
        "exposed wait: compute stalls for 16.0 µs (transfer 15.0 µs, latency 1.0 µs)");
  // The rank under the cursor.
  const float y = viewer.y_of(0, 10 * us);
  viewer.move(viewer.x_of(10 * us), y);
  CHECK(view.buckets().rank == 0);
  CHECK(view.explanation().front().starts_with("Rank 0 (under the cursor) sends 3.50 kB"));
  viewer.move(800, 880);
  CHECK(view.buckets().rank == 1);
  // A click selects a span of the bucket and brings it into view.
  viewer.model.viewport.go_to({0, 20.0 * us});
  viewer.model.viewport.advance(timeline, 0, true);
  const ImVec2 last = view.centre_of(3);
  viewer.click(last.x, last.y);
  REQUIRE(viewer.model.selected.kind == Finding::Kind::span);
  CHECK(viewer.model.selected.rank->rank == 1);
  CHECK(viewer.model.selected.span.start == 71 * us);
  CHECK(viewer.model.selected.span.sequence == 3);
  viewer.model.viewport.advance(timeline, 0, true);
  CHECK(viewer.model.viewport.window().begin < 71.0 * us);
  CHECK(viewer.model.viewport.window().end > 76.0 * us);
}
