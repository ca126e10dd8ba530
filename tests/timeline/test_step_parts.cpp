#include <doctest/doctest.h>

#include <array>
#include <random>
#include <string>

#include "core/timeline/analysis.h"

using namespace lockstep;

namespace {

/// A hand-written timeline.
class Written {
 public:
  explicit Written(const char* clock) {
    timeline_.run().clock = clock;
    timeline_.run().ranks = 2;
  }
  Written& span(int rank, int tid, Category category, Picoseconds start, Picoseconds end,
                int step = 0) {
    TimelineSpan span{.start = start, .end = end, .name = timeline_.intern("x")};
    span.category = category;
    span.step = step;
    timeline_.add(rank, tid, span);
    return *this;
  }
  /// Adds a message from lane 1 to lane 2, with its spans.
  Written& message(int from, Interval sent, int to, Interval received) {
    span(from, 1, Category::communication, sent.start, sent.end);
    span(to, 2, Category::communication, received.start, received.end);
    timeline_.flow_start(++messages_, from, 1, sent.start);
    timeline_.flow_end(messages_, to, 2, received.end);
    return *this;
  }
  const Timeline& done() {
    timeline_.settle();
    return timeline_;
  }

 private:
  Timeline timeline_;
  std::uint64_t messages_ = 0;
};

void check_parts(const StepParts& parts, Picoseconds compute, Picoseconds transfer,
                 Picoseconds latency, Picoseconds late_peer, Picoseconds idle) {
  CHECK(parts.compute == compute);
  CHECK(parts.transfer == transfer);
  CHECK(parts.latency == latency);
  CHECK(parts.late_peer == late_peer);
  CHECK(parts.idle == idle);
}

}  // namespace

TEST_CASE("exposed communication is idle compute: transfer, latency and a late peer are separate") {
  // α = 3, β · bytes = 4. Rank 1 waits from 2 on. Rank 0 is late and sends at 5, so the message is
  // in flight from 5 to 12 and on the receiver's lane from 8 to 12.
  Written written{"modelled"};
  written.span(0, 0, Category::forward, 0, 5).span(0, 0, Category::backward, 5, 20);
  written.span(1, 0, Category::forward, 0, 2)
      .span(1, 0, Category::wait, 2, 12)
      .span(1, 0, Category::backward, 12, 17);
  written.message(0, {5, 9}, 1, {8, 12});
  const auto parts = step_parts(written.done(), 0);
  REQUIRE(parts.size() == 2);
  CHECK(parts[0].step == 20);
  CHECK(parts[1].step == 20);
  check_parts(parts[0], 20, 0, 0, 0, 0);  // rank 0's send is hidden
  check_parts(parts[1], 7, 4, 3, 3, 3);
  CHECK(parts[1].exposed() == 10);
  CHECK(step_parts(written.done(), 1).empty());
}

TEST_CASE("a rank's own send does not hide the latency of a message it waits for") {
  // One step of a ring, α = 3, β · bytes = 4: both ranks send at 0 and receive from 3 to 7.
  Written written{"modelled"};
  for (const int rank : {0, 1}) {
    written.span(rank, 0, Category::wait, 0, 7).span(rank, 0, Category::forward, 7, 9);
    written.message(rank, {0, 4}, 1 - rank, {3, 7});
  }
  for (const StepParts& parts : step_parts(written.done(), 0)) check_parts(parts, 2, 4, 3, 0, 0);
}

TEST_CASE("a message behind a late one on its lane is not latency meanwhile") {
  // Rank 1 waits from 2 on. First it receives a message from rank 0, which is late: the message is
  // in flight from 5 to 12 (α = 3, β · bytes = 4). Rank 2's message was sent at 0, but leaves the
  // lane after rank 0's.
  Written written{"modelled"};
  written.span(1, 0, Category::forward, 0, 2).span(1, 0, Category::wait, 2, 16);
  written.message(0, {5, 9}, 1, {8, 12}).message(2, {0, 4}, 1, {12, 16});
  check_parts(step_parts(written.done(), 0)[1], 2, 8, 3, 3, 0);

  // Messages without bytes, as in a barrier, both arrive at 12.
  Written barrier{"modelled"};
  barrier.span(1, 0, Category::forward, 0, 2).span(1, 0, Category::wait, 2, 12);
  barrier.message(0, {9, 9}, 1, {12, 12}).message(2, {0, 0}, 1, {12, 12});
  check_parts(step_parts(barrier.done(), 0)[1], 2, 0, 3, 7, 0);

  // A slow message is in flight the whole time, even if another message was sent later.
  Written far{"modelled"};
  far.span(1, 0, Category::forward, 0, 2).span(1, 0, Category::wait, 2, 20);
  far.message(0, {9, 10}, 1, {10, 11}).message(2, {0, 1}, 1, {19, 20});
  check_parts(step_parts(far.done(), 0)[1], 2, 2, 16, 0, 0);
}

TEST_CASE("a wait within an action is exposed, not compute") {
  Written written{"modelled"};
  written.span(0, 0, Category::forward, 0, 20).span(0, 0, Category::wait, 6, 13);
  written.span(1, 0, Category::forward, 0, 20);
  written.message(1, {2, 8}, 0, {4, 10});
  check_parts(step_parts(written.done(), 0)[0], 13, 4, 0, 3, 0);
}

TEST_CASE("modelled: time between named spans is compute; outside the rank's step it is idle") {
  Written written{"modelled"};
  written.span(0, 0, Category::step, 0, 10).span(0, 0, Category::forward, 2, 5);
  written.span(0, 0, Category::wait, 7, 8);
  written.span(1, 0, Category::step, 0, 14).span(1, 0, Category::forward, 0, 14);
  check_parts(step_parts(written.done(), 0)[0], 9, 0, 0, 1, 4);
  Written measured{"wall"};
  measured.span(0, 0, Category::step, 0, 10).span(0, 0, Category::forward, 2, 5);
  check_parts(step_parts(measured.done(), 0)[0], 3, 0, 0, 0, 7);
}

TEST_CASE("on the wall clock a send that waits for its receiver is waiting for a late peer") {
  // A rendezvous: rank 0 posts at 2, rank 1 only at 9, and the bytes move from 9 to 11.
  for (const char* clock : {"wall", "modelled"}) {
    CAPTURE(clock);
    Written written{clock};
    written.span(0, 0, Category::forward, 0, 2).span(0, 0, Category::wait, 2, 11);
    written.span(1, 0, Category::forward, 0, 9).span(1, 0, Category::wait, 9, 11);
    written.message(0, {2, 11}, 1, {9, 11});
    const auto parts = step_parts(written.done(), 0);
    if (clock == std::string{"wall"})
      check_parts(parts[0], 2, 2, 0, 7, 0);
    else
      check_parts(parts[0], 2, 9, 0, 0, 0);
    check_parts(parts[1], 9, 2, 0, 0, 0);
  }
}

TEST_CASE("a trace from another tool has no waits: communication that is not hidden is exposed") {
  Written written{""};
  written.span(0, 0, Category::forward, 0, 10).span(0, 1, Category::communication, 8, 14);
  written.span(0, 0, Category::backward, 15, 20);
  check_parts(step_parts(written.done(), 0)[0], 15, 4, 0, 0, 1);
}

TEST_CASE("a step's parts are never negative and add up to the step, whatever the timeline") {
  std::mt19937 random{5};
  const auto up_to = [&](int most) { return std::uniform_int_distribution<int>(0, most)(random); };
  constexpr Category categories[] = {Category::forward, Category::backward,     Category::optimizer,
                                     Category::wait,    Category::wait,         Category::kernel,
                                     Category::step,    Category::communication};
  for (int round = 0; round < 1000; ++round) {
    Written written{std::array{"modelled", "wall", ""}[static_cast<std::size_t>(up_to(2))]};
    const int ranks = 1 + up_to(3);
    const auto interval = [&] {
      const Picoseconds start = up_to(100);
      return Interval{start, start + up_to(30)};
    };
    for (int i = up_to(30); i > 0; --i) {
      const Interval at = interval();
      const Category category = categories[up_to(7)];
      const int tid = category == Category::communication ? 1 + up_to(1) : up_to(9) / 9;
      written.span(up_to(ranks - 1), tid, category, at.start, at.end, up_to(1));
    }
    for (int i = up_to(10); i > 0; --i)
      written.message(up_to(ranks - 1), interval(), up_to(ranks - 1), interval());
    const Timeline& timeline = written.done();
    for (int step = 0; step < 2; ++step)
      for (const StepParts& parts : step_parts(timeline, step)) {
        REQUIRE(parts.compute >= 0);
        REQUIRE(parts.transfer >= 0);
        REQUIRE(parts.latency >= 0);
        REQUIRE(parts.late_peer >= 0);
        REQUIRE(parts.idle >= 0);
        REQUIRE(parts.compute + parts.exposed() + parts.idle == parts.step);
        REQUIRE(parts.step == timeline.find_step(step)->end - timeline.find_step(step)->start);
      }
  }
}
