// The rank that the others wait for, found from the entries into collectives.
#include <doctest/doctest.h>

#include <algorithm>
#include <random>
#include <vector>

#include "core/timeline/straggler.h"

using namespace lockstep;

namespace {

/// Ranks that compute for `compute[rank]` and then enter one collective.
class Entered {
 public:
  explicit Entered(const std::vector<Picoseconds>& compute, bool messages = true) {
    const int ranks = static_cast<int>(compute.size());
    const Picoseconds last = *std::ranges::max_element(compute);
    const NameId group = timeline.intern("world"), name = timeline.intern("all_reduce");
    const auto collective = [&](int rank, int lane, Picoseconds start, Picoseconds end, int peer) {
      TimelineSpan span{.start = start,
                        .end = end,
                        .bytes = 8,
                        .name = name,
                        .step = 0,
                        .peer = peer,
                        .sequence = 7,
                        .group = group,
                        .group_size = ranks};
      span.category = Category::communication;
      timeline.add(rank, lane, span);
    };
    for (int rank = 0; rank < ranks; ++rank) {
      const auto entry = compute[static_cast<std::size_t>(rank)];
      TimelineSpan work{.start = 0, .end = entry, .step = 0};
      work.category = Category::backward;
      timeline.add(rank, 0, work);
      collective(rank, 1, entry, last + 10, messages ? (rank + 1) % ranks : -1);
      if (!messages) continue;
      // The previous rank's bytes arrive as soon as that rank has entered.
      const int from = (rank + ranks - 1) % ranks;
      const auto sent = compute[static_cast<std::size_t>(from)];
      collective(rank, 2, sent, sent + 5, from);
      timeline.flow_start(static_cast<std::uint64_t>(rank) + 1, from, 1, sent);
      timeline.flow_end(static_cast<std::uint64_t>(rank) + 1, rank, 2, sent + 5);
    }
    timeline.settle();
  }
  Timeline timeline;
};

std::optional<Straggler> straggler_of(const Timeline& timeline, int step) {
  return straggler(timeline, step, step_parts(timeline, step));
}

/// Adds a collective's span, with or without a message to another rank.
void add(Timeline& timeline, int rank, int lane, const Interval& time, const char* group, int size,
         int sequence, int peer = -1) {
  TimelineSpan span{.start = time.start,
                    .end = time.end,
                    .bytes = 8,
                    .name = timeline.intern("all_reduce"),
                    .step = 0,
                    .peer = peer,
                    .sequence = sequence,
                    .group = timeline.intern(group),
                    .group_size = size};
  span.category = Category::communication;
  timeline.add(rank, lane, span);
}

/// Adds a span to a rank's compute lane.
void work(Timeline& timeline, int rank, Picoseconds start, Picoseconds end, Category category) {
  TimelineSpan span{.start = start, .end = end, .step = 0};
  span.category = category;
  timeline.add(rank, 0, span);
}

/// Returns a step of the wall clock with one all_reduce that the ranks enter at these times.
Timeline entered_at(const std::vector<Picoseconds>& entries, Picoseconds end) {
  Timeline timeline;
  timeline.run().clock = "wall";
  const auto ranks = static_cast<int>(entries.size());
  for (int rank = 0; rank < ranks; ++rank)
    add(timeline, rank, 1, {entries[static_cast<std::size_t>(rank)], end}, "world", ranks, 0);
  return timeline;
}

}  // namespace

TEST_CASE("the straggler is the last rank to enter a collective") {
  for (const bool messages : {true, false}) {
    CAPTURE(messages);
    const Entered run{{100, 104, 150, 98}, messages};
    const auto late = straggler_of(run.timeline, 0);
    REQUIRE(late);
    CHECK(late->rank == 2);
    CHECK(late->late == 50);  // the lower median of 98, 100, 104 and 150 is 100
    CHECK(run.timeline.name(late->operation) == "all_reduce");
    CHECK(run.timeline.name(late->group) == "world");
    CHECK(late->sequence == 7);
    CHECK(late->compute == 150);
    CHECK(late->median_compute == 100);
    CHECK(late->cost() == 50);
  }
}

TEST_CASE("ranks that keep up have no straggler") {
  CHECK_FALSE(straggler_of(Entered{{100, 100, 101, 100}}.timeline, 0));  // 1 of 111
  CHECK(straggler_of(Entered{{100, 100, 103, 100}}.timeline, 0));        // 3 of 113
  CHECK_FALSE(straggler_of(Entered{{100, 100, 150, 100}}.timeline, 1));  // no such step
  CHECK_FALSE(straggler_of(Timeline{}, 0));
}

TEST_CASE("a rank that is late because it waited for another one is no straggler") {
  // Rank 0 waits for a message of rank 3, which computes for the longest, and so enters last.
  Timeline timeline = entered_at({152, 100, 100, 150}, 160);
  work(timeline, 0, 0, 40, Category::forward);
  work(timeline, 0, 40, 120, Category::wait);
  work(timeline, 0, 120, 152, Category::backward);
  for (const int rank : {1, 2}) {
    work(timeline, rank, 0, 100, Category::backward);
    work(timeline, rank, 100, 160, Category::wait);
  }
  work(timeline, 3, 0, 150, Category::backward);
  work(timeline, 3, 150, 160, Category::wait);
  timeline.settle();
  const auto late = straggler_of(timeline, 0);
  REQUIRE(late);
  CHECK(late->rank == 3);
  CHECK(late->late == 50);
  CHECK(late->compute == 150);
  CHECK(late->median_compute == 100);
}

TEST_CASE(
    "a rank that enters just after the straggler, for whose message it waited, is no straggler") {
  Timeline timeline = entered_at({100, 100, 300, 302}, 310);
  for (const int rank : {0, 1, 3}) {
    work(timeline, rank, 0, 100, Category::forward);
    work(timeline, rank, 100, 310, Category::wait);
  }
  work(timeline, 2, 0, 300, Category::forward);
  work(timeline, 2, 300, 310, Category::wait);
  timeline.settle();
  const auto late = straggler_of(timeline, 0);
  REQUIRE(late);
  CHECK(late->rank == 2);
  CHECK(late->late == 200);
}

TEST_CASE("a collective counts only if every rank of its group entered it") {
  Entered run{{100, 100, 150, 100}};
  for (const auto& [rank, start] : {std::pair{1, 200}, {3, 10'000}}) {
    TimelineSpan span{.start = start,
                      .end = start + 10,
                      .name = run.timeline.intern("all_gather"),
                      .step = 0,
                      .sequence = 8,
                      .group = run.timeline.intern("world"),
                      .group_size = 4};
    span.category = Category::communication;
    run.timeline.add(rank, 1, span);
  }
  run.timeline.settle();
  CHECK_FALSE(straggler_of(run.timeline, 0));  // 50 is less than 2 % of a step that lasts 10,010
}

TEST_CASE("groups of one name are apart") {
  // The dp groups of a 2 x 2 mesh are {0, 2} and {1, 3}. Rank 3 is late.
  Timeline timeline;
  for (int rank = 0; rank < 4; ++rank) {
    const int other = (rank + 2) % 4;
    const Picoseconds start = rank == 3 ? 150 : 100;
    add(timeline, rank, 1, {start, 160}, "dp", 2, 3, other);
    add(timeline, rank, 2, {start + 1, 161}, "dp", 2, 3, other);
    timeline.flow_start(static_cast<std::uint64_t>(rank) + 1, rank, 1, start);
    timeline.flow_end(static_cast<std::uint64_t>(rank) + 1, other, 2, 161);
  }
  timeline.settle();
  const auto late = straggler_of(timeline, 0);
  REQUIRE(late);
  CHECK(late->rank == 3);
  CHECK(late->late == 50);
  CHECK(timeline.name(late->group) == "dp");
}

TEST_CASE("a collective of a library counts although its ranks send messages besides") {
  Timeline timeline;
  for (int rank = 0; rank < 2; ++rank) {
    add(timeline, rank, 3, {rank == 1 ? 60 : 10, 100}, "world", 2, 0);
    TimelineSpan send{.start = 0,
                      .end = 5,
                      .bytes = 8,
                      .name = timeline.intern("send"),
                      .step = 0,
                      .peer = 1 - rank};
    send.category = Category::communication;
    timeline.add(rank, 1, send);
    timeline.flow_start(static_cast<std::uint64_t>(rank) + 1, rank, 1, 0);
    timeline.flow_end(static_cast<std::uint64_t>(rank) + 1, 1 - rank, 2, 5);
  }
  timeline.settle();
  const auto late = straggler_of(timeline, 0);
  REQUIRE(late);
  CHECK(late->rank == 1);
  CHECK(late->late == 50);
}

TEST_CASE("a straggler that is late for several collectives costs the sum of the waits") {
  // Three all-reduces of 60, in each of which ranks 0 and 2 exchange messages with rank 1, which
  // comes 50 late without computing longer.
  Timeline timeline;
  timeline.run().clock = "wall";
  std::uint64_t id = 0;
  const auto message = [&](int from, int from_lane, int to, int to_lane, int i, Picoseconds start) {
    add(timeline, from, from_lane, {start, start + 10}, "world", 3, i, to);
    add(timeline, to, to_lane, {start, start + 10}, "world", 3, i, from);
    timeline.flow_start(++id, from, from_lane, start);
    timeline.flow_end(id, to, to_lane, start + 10);
  };
  for (int i = 0; i < 3; ++i) {
    const Picoseconds start = 60 * i;
    message(0, 1, 1, 2, i, start);
    message(2, 1, 1, 3, i, start);
    message(1, 1, 0, 2, i, start + 50);
    message(1, 4, 2, 2, i, start + 50);
    for (int rank = 0; rank < 3; ++rank) {
      TimelineSpan wait{.start = rank == 1 ? start + 50 : start, .end = start + 60, .step = 0};
      wait.category = Category::wait;
      timeline.add(rank, 0, wait);
    }
  }
  timeline.settle();
  const auto late = straggler_of(timeline, 0);
  REQUIRE(late);
  CHECK(late->rank == 1);
  CHECK(late->late == 50);
  CHECK(late->others_wait == 120);  // from 10 to 50 of each, when no message moves
  CHECK(late->cost() == 120);
}

TEST_CASE("a straggler can cost more than it is late for one collective") {
  CHECK(Straggler{.late = 50, .compute = 170, .median_compute = 100}.cost() == 70);
  CHECK(Straggler{.late = 50, .compute = 90, .median_compute = 100}.cost() == 50);
  CHECK(Straggler{.late = 50, .compute = 170, .median_compute = 100, .others_wait = 90}.cost() ==
        90);
}

TEST_CASE("the straggler is found wherever it is") {
  std::mt19937 random{5};
  for (int round = 0; round < 50; ++round) {
    const int ranks = 2 + static_cast<int>(random() % 15);
    std::vector<Picoseconds> compute;
    for (int rank = 0; rank < ranks; ++rank)
      compute.push_back(1'000 + static_cast<Picoseconds>(random() % 10));
    const auto slow = random() % compute.size();
    compute[slow] += 200;
    const auto late = straggler_of(Entered{compute, round % 2 == 0}.timeline, 0);
    REQUIRE(late);
    CHECK(late->rank == static_cast<int>(slow));
    CHECK(late->late >= 190);
    CHECK(late->late <= 210);
  }
}
