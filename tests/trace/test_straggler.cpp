// The rank that the others wait for, found from the entries into collectives.
#include <doctest/doctest.h>

#include <algorithm>
#include <random>
#include <vector>

#include "core/trace/straggler.h"

using namespace lockstep;

namespace {

/// Ranks that compute for `compute[rank]` and then enter one collective.
class Entered {
 public:
  explicit Entered(const std::vector<Picoseconds>& compute, bool messages = true) {
    const int ranks = static_cast<int>(compute.size());
    const Picoseconds last = *std::ranges::max_element(compute);
    const NameId group = timeline.intern("world"), name = timeline.intern("all_reduce");
    const auto collective = [&](int rank, int lane, Picoseconds start, Picoseconds end) {
      TimelineSpan span{.start = start,
                        .end = end,
                        .bytes = 8,
                        .name = name,
                        .step = 0,
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
      collective(rank, 1, entry, last + 10);
      if (!messages) continue;
      // The previous rank's bytes arrive as soon as that rank has entered.
      const int from = (rank + ranks - 1) % ranks;
      const auto sent = compute[static_cast<std::size_t>(from)];
      collective(rank, 2, sent, sent + 5);
      timeline.flow_start(static_cast<std::uint64_t>(rank) + 1, from, 1, sent);
      timeline.flow_end(static_cast<std::uint64_t>(rank) + 1, rank, 2, sent + 5);
    }
    timeline.settle();
  }
  Timeline timeline;
};

}  // namespace

TEST_CASE("the straggler is the last rank to enter a collective") {
  for (const bool messages : {true, false}) {
    CAPTURE(messages);
    const Entered run{{100, 104, 150, 98}, messages};
    const auto late = straggler(run.timeline, 0);
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
  CHECK_FALSE(straggler(Entered{{100, 100, 101, 100}}.timeline, 0));  // 1 of 111
  CHECK(straggler(Entered{{100, 100, 103, 100}}.timeline, 0));        // 3 of 113
  CHECK_FALSE(straggler(Entered{{100, 100, 150, 100}}.timeline, 1));  // no such step
  CHECK_FALSE(straggler(Timeline{}, 0));
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
  CHECK_FALSE(straggler(run.timeline, 0));  // 50 is less than 2 % of a step that lasts 10,010
}

TEST_CASE("a straggler can cost more than it is late for one collective") {
  CHECK(Straggler{.late = 50, .compute = 170, .median_compute = 100}.cost() == 70);
  CHECK(Straggler{.late = 50, .compute = 90, .median_compute = 100}.cost() == 50);
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
    const auto late = straggler(Entered{compute, round % 2 == 0}.timeline, 0);
    REQUIRE(late);
    CHECK(late->rank == static_cast<int>(slow));
    CHECK(late->late >= 190);
    CHECK(late->late <= 210);
  }
}
