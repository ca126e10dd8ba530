#include <doctest/doctest.h>

#include <random>
#include <vector>

#include "viz/read/timeline/analysis.h"
#include "viz/read/timeline/older.h"
#include "viz/read/timeline/pipeline_analysis.h"

using namespace lockstep;

namespace {

/// Adds a span, by default of step 0, and returns it.
TimelineSpan add(Timeline& timeline, int rank, int tid, const char* name, Category category,
                 Picoseconds start, Picoseconds end, int stage = -1, int step = 0) {
  TimelineSpan span{.start = start, .end = end, .name = timeline.intern(name)};
  span.category = category;
  span.stage = stage;
  span.step = step;
  infer_facts(span, name, timeline.lane(rank, tid));
  timeline.add(rank, tid, span);
  return span;
}

}  // namespace

TEST_CASE("a bubble is the rank-time of a step's window in which no action runs") {
  // Two stages, two microbatches, forward 1, backward 2: (p-1)/(m+p-1) = 1/3.
  Timeline timeline;
  add(timeline, 0, 0, "PP:0F0", Category::forward, 0, 1);
  add(timeline, 0, 0, "PP:0F1", Category::forward, 1, 2);
  add(timeline, 0, 0, "PP:0B0", Category::backward, 4, 6);
  add(timeline, 0, 0, "PP:0B1", Category::backward, 7, 9);
  add(timeline, 1, 0, "forward", Category::forward, 1, 2, 1);
  add(timeline, 1, 0, "backward", Category::backward, 2, 4, 1);
  add(timeline, 1, 0, "forward", Category::forward, 4, 5, 1);
  add(timeline, 1, 0, "backward", Category::backward, 5, 7, 1);
  // None of these counts: a span without a stage, an action in another step, the optimizer, a
  // message, or the step itself.
  add(timeline, 0, 0, "forward", Category::forward, 2, 3);
  add(timeline, 0, 0, "PP:0F0", Category::forward, 20, 30, 0, 1);
  add(timeline, 0, 0, "AdamW", Category::optimizer, 9, 12);
  add(timeline, 0, 1, "send", Category::communication, 1, 4, 0);
  add(timeline, 0, 0, "step", Category::step, 0, 12);
  timeline.settle();

  const auto whole = bubble(timeline, 0);
  REQUIRE(whole);
  CHECK(whole->window == 9);
  CHECK(whole->busy == 12);
  CHECK(whole->idle() == 6);
  CHECK(whole->share() == doctest::Approx(1.0 / 3));

  CHECK(internal_bubble(timeline, 0, 0)->idle() == 3);
  CHECK(internal_bubble(timeline, 0, 1)->window == 6);
  CHECK(internal_bubble(timeline, 0, 1)->idle() == 0);
  CHECK(internal_bubble(timeline, 0)->share() == doctest::Approx(3.0 / 9));
  CHECK_FALSE(bubble(timeline, 7));
}

TEST_CASE("a rank without actions in a step takes no part in its bubble") {
  Timeline timeline;
  add(timeline, 0, 0, "PP:0F0", Category::forward, 0, 2);
  add(timeline, 1, 0, "PP:1F0", Category::forward, 2, 4);
  add(timeline, 2, 0, "PP:2F0", Category::forward, 4, 6);
  add(timeline, 0, 0, "PP:0F0", Category::forward, 10, 12, -1, 1);
  add(timeline, 1, 0, "PP:1F0", Category::forward, 12, 16, -1, 1);
  add(timeline, 2, 0, "absent", Category::wait, 10, 16, -1, 1);
  timeline.settle();
  CHECK(bubble(timeline, 0)->ranks == 3);
  CHECK(bubble(timeline, 0)->idle() == 12);
  CHECK(bubble(timeline, 1)->ranks == 2);
  CHECK(bubble(timeline, 1)->idle() == 6);
}

TEST_CASE("a recomputation within a backward is not counted twice") {
  Timeline timeline;
  add(timeline, 0, 0, "PP:0B0", Category::backward, 0, 10);
  add(timeline, 0, 0, "recompute", Category::recompute, 0, 4, 0);
  add(timeline, 0, 0, "PP:0B1", Category::backward, 15, 20);
  timeline.settle();
  CHECK(bubble(timeline, 0)->idle() == 5);
}

TEST_CASE("overlap is communication within compute over communication, merged first") {
  Timeline timeline;
  add(timeline, 0, 0, "forward", Category::forward, 0, 10);
  add(timeline, 0, 0, "matmul", Category::kernel, 2, 9);
  add(timeline, 0, 0, "wait", Category::wait, 6, 8);  // inside the forward, which pauses
  add(timeline, 0, 1, "send", Category::communication, 4, 12);
  add(timeline, 0, 2, "recv", Category::communication, 5, 14);
  add(timeline, 0, 1, "send", Category::communication, 30, 31, -1, 1);
  timeline.settle();
  const Overlap step = communication_overlap(timeline, 0);
  CHECK(step.communication == 10);  // 4 to 14
  CHECK(step.hidden == 4);          // 4 to 6 and 8 to 10
  CHECK(step.share() == doctest::Approx(0.4));
  CHECK(communication_overlap(timeline).communication == 11);
  CHECK(communication_overlap(timeline).hidden == 4);
}

TEST_CASE("spans come in any order; rows end up sorted, disjoint and complete") {
  std::mt19937 random{3};
  for (int round = 0; round < 300; ++round) {
    Lane lane{0, "compute"};
    std::uniform_int_distribution<Picoseconds> time(0, 50);
    const int count = std::uniform_int_distribution<int>(1, 40)(random);
    Picoseconds sum = 0;
    for (int i = 0; i < count; ++i) {
      Picoseconds a = time(random), b = time(random);
      if (b < a) std::swap(a, b);
      TimelineSpan span{.start = a, .end = b};
      span.category = Category::forward;
      lane.append(span);
      sum += b - a;
      if (i % 3 == 0) lane.settle();
    }
    lane.settle();
    std::size_t found = 0;
    for (const SpanRow& row : lane.rows(Band::action)) {
      for (std::size_t i = 0; i < row.size(); ++i) {
        sum -= row[i].duration();
        if (i > 0) REQUIRE(row[i - 1].end <= row[i].start);
      }
      found += row.size();
    }
    REQUIRE(found == static_cast<std::size_t>(count));
    REQUIRE(sum == 0);
  }
}

TEST_CASE("an enclosing span lies above the enclosed ones, even if it arrives later") {
  Lane lane{0, "compute"};
  TimelineSpan wait{.start = 2, .end = 4};
  wait.category = Category::wait;
  TimelineSpan forward{.start = 0, .end = 10};
  forward.category = Category::forward;
  lane.append(wait);
  lane.settle();
  CHECK(lane.rows(Band::action).size() == 1);
  lane.append(forward);
  lane.settle();
  REQUIRE(lane.rows(Band::action).size() == 2);
  CHECK(lane.rows(Band::action)[0].front().category == Category::forward);
  CHECK(lane.rows(Band::action)[1].front().category == Category::wait);
}

TEST_CASE("what one rank did in a step: its time, its bytes and its memory") {
  // Step 1 of rank 1 begins before step 0 of rank 0 has ended.
  Timeline timeline;
  const auto send = [&](int rank, int step, Picoseconds start, Picoseconds end, std::int64_t bytes,
                        const char* name = "send") {
    TimelineSpan span{.start = start, .end = end, .name = timeline.intern(name)};
    span.category = Category::communication;
    span.step = step;
    span.bytes = bytes;
    infer_facts(span, name, timeline.lane(rank, 1));
    timeline.add(rank, 1, span);
  };
  const auto sample = [&](int rank, Picoseconds at, std::int64_t activations) {
    MemorySample memory{.at = at};
    memory.bytes[static_cast<std::size_t>(MemoryCategory::activations)] = activations;
    memory.bytes[static_cast<std::size_t>(MemoryCategory::parameters)] = 5;
    timeline.sample_memory(rank, memory);
  };
  add(timeline, 0, 0, "PP:0F0", Category::forward, 2, 6, 0, 0);
  add(timeline, 0, 0, "PP:0B0", Category::backward, 14, 20, 0, 0);
  add(timeline, 0, 0, "step", Category::step, 0, 22, -1, 0);
  add(timeline, 1, 0, "PP:1F0", Category::forward, 6, 8, 1, 0);
  add(timeline, 1, 0, "PP:1F0", Category::forward, 15, 18, 1, 1);
  send(0, 0, 6, 7, 100);
  send(0, 0, 8, 9, 20);
  // Two messages of a collective, on the lanes for sending and receiving.
  send(0, 0, 9, 12, 500, "all_reduce");
  timeline.flow_start(1, 0, 1, 9);
  timeline.flow_end(1, 1, 2, 12);
  TimelineSpan received{.start = 9, .end = 12, .bytes = 500, .name = timeline.intern("all_reduce")};
  received.category = Category::communication;
  received.step = 0;
  timeline.add(0, 2, received);
  send(1, 0, 8, 10, 100, "recv");
  send(1, 0, 8, 10, 3);
  send(1, 1, 18, 19, 40);
  sample(0, 1, 0);
  sample(0, 6, 30);
  sample(0, 30, 70);  // after the step
  sample(1, 4, 50);   // still held when rank 1's step begins
  sample(1, 7, 10);
  timeline.settle();
  const RankTimeline& first = *timeline.ranks()[0];
  const RankTimeline& second = *timeline.ranks()[1];

  CHECK(*step_of_rank(timeline, first, 0) == Interval{0, 22});
  CHECK(*step_of_rank(timeline, second, 0) == Interval{6, 10});
  CHECK(*step_of_rank(timeline, second, 1) == Interval{15, 19});
  CHECK_FALSE(step_of_rank(timeline, first, 1));
  CHECK_FALSE(step_of_rank(timeline, first, 7));
  CHECK(bytes_sent(timeline, first, 0) == 620);
  CHECK(bytes_sent(timeline, second, 0) == 3);
  CHECK(bytes_sent(timeline, second, 1) == 40);
  CHECK(bytes_sent(timeline, second, 7) == 0);
  CHECK(memory_peak(timeline, first, 0)->total() == 35);
  CHECK(memory_peak(timeline, second, 0)->total() == 55);
  CHECK(memory_peak(timeline, second, 1)->total() == 15);
  CHECK_FALSE(memory_peak(timeline, first, 1));
}

TEST_CASE("a microbatch whose forward ran in an earlier step is in flight from the step's start") {
  // A pipeline that is not empty between its steps: F0 F1 | F2 B0 F3 B1 | B2 B3.
  Timeline timeline;
  const auto action = [&](int step, Category category, int microbatch, Picoseconds start) {
    TimelineSpan span{.start = start, .end = start + 1, .name = timeline.intern("action")};
    span.category = category;
    span.stage = 0;
    span.microbatch = microbatch;
    span.step = step;
    timeline.add(0, 0, span);
  };
  action(0, Category::forward, 0, 0);
  action(0, Category::forward, 1, 1);
  action(1, Category::forward, 2, 2);
  action(1, Category::backward, 0, 3);
  action(1, Category::forward, 3, 4);
  action(1, Category::backward, 1, 5);
  action(2, Category::backward, 2, 6);
  action(2, Category::backward, 3, 7);
  add(timeline, 0, 0, "step", Category::step, 0, 2, -1, 0);
  add(timeline, 0, 0, "step", Category::step, 2, 6, -1, 1);
  add(timeline, 0, 0, "step", Category::step, 6, 8, -1, 2);
  timeline.settle();
  const auto numbers = [&](int step) {
    std::vector<int> found;
    const auto ranks = microbatches_in_flight(timeline, step);
    REQUIRE(ranks.size() == 1);
    for (const InFlight& each : ranks.front()) found.push_back(each.microbatches);
    return found;
  };
  CHECK(numbers(0) == std::vector{1, 2});
  CHECK(numbers(1) == std::vector{2, 3, 2, 3, 2});
  CHECK(numbers(2) == std::vector{2, 1, 0});
}
