#include <doctest/doctest.h>

#include <array>
#include <random>
#include <string>

#include "viz/read/timeline/older.h"
#include "viz/read/timeline/step_account.h"

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
  Written& message(int from, Interval sent, int to, Interval received, int step = 0) {
    span(from, 1, Category::communication, sent.start, sent.end, step);
    span(to, 2, Category::communication, received.start, received.end, step);
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

StepSums sums_of(const Timeline& timeline, int rank, int step = 0) {
  const StepAccount account = step_account(timeline, step);
  REQUIRE(account.find(rank) != nullptr);
  return account.find(rank)->sums;
}

void check_parts(const StepSums& sums, Picoseconds compute, Picoseconds transfer,
                 Picoseconds latency, Picoseconds late_peer, Picoseconds rest) {
  CHECK(sums.compute == compute);
  CHECK(sums.exposed() == Exposed{transfer, latency, late_peer});
  CHECK(sums.other + sums.ended == rest);
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
  const StepAccount account = step_account(written.done(), 0);
  REQUIRE(account.ranks.size() == 2);
  CHECK(account.length == 20);
  check_parts(account.ranks[0].sums, 20, 0, 0, 0, 0);  // rank 0's send is hidden
  check_parts(account.ranks[1].sums, 7, 4, 3, 3, 3);
  CHECK(account.ranks[0].overlaps[0] == Overlap{4, 4});
  CHECK(account.ranks[1].overlaps[0] == Overlap{4, 0});
  CHECK(step_account(written.done(), 1).ranks.empty());
}

TEST_CASE("a rank's own send does not hide the latency of a message it waits for") {
  // One step of a ring, α = 3, β · bytes = 4: both ranks send at 0 and receive from 3 to 7.
  Written written{"modelled"};
  for (const int rank : {0, 1}) {
    written.span(rank, 0, Category::wait, 0, 7).span(rank, 0, Category::forward, 7, 9);
    written.message(rank, {0, 4}, 1 - rank, {3, 7});
  }
  for (const int rank : {0, 1}) check_parts(sums_of(written.done(), rank), 2, 4, 3, 0, 0);
}

TEST_CASE("a message behind a late one on its lane is not latency meanwhile") {
  // Rank 1 waits from 2 on. First it receives a message from rank 0, which is late: the message is
  // in flight from 5 to 12 (α = 3, β · bytes = 4). Rank 2's message was sent at 0, but leaves the
  // lane after rank 0's.
  Written written{"modelled"};
  written.span(1, 0, Category::forward, 0, 2).span(1, 0, Category::wait, 2, 16);
  written.message(0, {5, 9}, 1, {8, 12}).message(2, {0, 4}, 1, {12, 16});
  check_parts(sums_of(written.done(), 1), 2, 8, 3, 3, 0);

  // Messages without bytes, as in a barrier, both arrive at 12.
  Written barrier{"modelled"};
  barrier.span(1, 0, Category::forward, 0, 2).span(1, 0, Category::wait, 2, 12);
  barrier.message(0, {9, 9}, 1, {12, 12}).message(2, {0, 0}, 1, {12, 12});
  check_parts(sums_of(barrier.done(), 1), 2, 0, 3, 7, 0);

  // A slow message is in flight the whole time, even if another message was sent later.
  Written far{"modelled"};
  far.span(1, 0, Category::forward, 0, 2).span(1, 0, Category::wait, 2, 20);
  far.message(0, {9, 10}, 1, {10, 11}).message(2, {0, 1}, 1, {19, 20});
  check_parts(sums_of(far.done(), 1), 2, 2, 16, 0, 0);
}

TEST_CASE("between stages, a message on the lane counts only once the awaited one has been sent") {
  // Rank 1 has posted two receives on one lane. Rank 0's message is in flight from 2 on. The rank
  // waits from 4 to 12 for rank 2's message, which is sent at 9.
  Timeline timeline;
  timeline.run().clock = "wall";
  timeline.run().ranks = 3;
  const auto add = [&](int rank, int lane, const char* name, Category category, Interval time,
                       int stage, int microbatch, int peer) {
    TimelineSpan span{.start = time.start,
                      .end = time.end,
                      .name = timeline.intern(name),
                      .step = 0,
                      .stage = stage,
                      .microbatch = microbatch,
                      .peer = peer};
    span.category = category;
    infer_facts(span, name, timeline.lane(rank, lane));
    timeline.add(rank, lane, span);
  };
  const auto message = [&](std::uint64_t id, int from, Interval sent, Interval received,
                           int microbatch) {
    add(from, 1, "send", Category::communication, sent, from, microbatch, 1);
    add(1, 2, "recv", Category::communication, received, 1, microbatch, from);
    timeline.flow_start(id, from, 1, sent.start);
    timeline.flow_end(id, 1, 2, received.end);
  };
  add(1, 0, "forward", Category::forward, {0, 4}, 1, 2, -1);
  add(1, 0, "recv", Category::wait, {4, 12}, 1, 0, 2);
  add(1, 0, "backward", Category::backward, {12, 16}, 1, 0, -1);
  add(1, 0, "send", Category::wait, {16, 20}, 1, 0, 0);
  add(2, 0, "backward", Category::backward, {0, 7}, 2, 0, -1);
  message(1, 0, {2, 14}, {3, 14}, 3);
  message(2, 2, {9, 12}, {9, 12}, 0);
  message(3, 0, {15, 22}, {17, 22}, 4);  // not awaited by the send from 16 to 20
  timeline.settle();
  const StepSums sums = sums_of(timeline, 1);
  CHECK(sums.waiting == 3);                  // until rank 2 has computed
  CHECK(sums.exposed().late_peer == 2 + 1);  // until it sends; and until rank 0 receives
  CHECK(sums.exposed().latency == 0);
  CHECK(sums.exposed().transfer == 3 + 3);
}

TEST_CASE("a message is held up by one that is sent only after the step") {
  // Rank 1's step ends at 20, while its own send leaves from 16 to 20. A message to it was sent at
  // 6, but rank 0 sends the previous message on the lane only at 30, so the message is not in
  // flight yet.
  Written written{"modelled"};
  written.span(1, 0, Category::step, 0, 20).span(1, 0, Category::forward, 0, 16);
  written.span(1, 0, Category::wait, 16, 20);
  written.message(0, {0, 2}, 1, {1, 3});
  written.message(1, {16, 20}, 0, {19, 23}).message(0, {30, 34}, 1, {33, 37}, 1);
  written.message(2, {6, 10}, 1, {37, 41}, 1);
  check_parts(sums_of(written.done(), 1), 16, 4, 0, 0, 3);  // rank 0 receives until 23
}

TEST_CASE("a wait within an action is exposed, not compute") {
  Written written{"modelled"};
  written.span(0, 0, Category::forward, 0, 20).span(0, 0, Category::wait, 6, 13);
  written.span(1, 0, Category::forward, 0, 20);
  written.message(1, {2, 8}, 0, {4, 10});
  check_parts(sums_of(written.done(), 0), 13, 4, 0, 3, 0);
}

TEST_CASE("modelled: time between named spans is compute; after its own step a rank has ended") {
  Written written{"modelled"};
  written.span(0, 0, Category::step, 0, 10).span(0, 0, Category::forward, 2, 5);
  written.span(0, 0, Category::wait, 7, 8);
  written.span(1, 0, Category::step, 0, 14).span(1, 0, Category::forward, 0, 14);
  check_parts(sums_of(written.done(), 0), 9, 0, 0, 1, 4);
  Written measured{"wall"};
  measured.span(0, 0, Category::step, 0, 10).span(0, 0, Category::forward, 2, 5);
  check_parts(sums_of(measured.done(), 0), 3, 0, 0, 0, 7);
}

TEST_CASE("on the wall clock a send that waits for its receiver is waiting for a late peer") {
  // In a rendezvous, rank 0 posts at 2, rank 1 only at 9, and the bytes move from 9 to 11.
  for (const char* clock : {"wall", "modelled"}) {
    CAPTURE(clock);
    Written written{clock};
    written.span(0, 0, Category::forward, 0, 2).span(0, 0, Category::wait, 2, 11);
    written.span(1, 0, Category::forward, 0, 9).span(1, 0, Category::wait, 9, 11);
    written.message(0, {2, 11}, 1, {9, 11});
    const Timeline& timeline = written.done();
    if (clock == std::string{"wall"})
      check_parts(sums_of(timeline, 0), 2, 2, 0, 7, 0);
    else
      check_parts(sums_of(timeline, 0), 2, 9, 0, 0, 0);
    check_parts(sums_of(timeline, 1), 9, 2, 0, 0, 0);
  }
}

TEST_CASE("a trace from another tool has no waits: communication that is not hidden is exposed") {
  Written written{""};
  written.span(0, 0, Category::forward, 0, 10).span(0, 1, Category::communication, 8, 14);
  written.span(0, 0, Category::backward, 15, 20);
  check_parts(sums_of(written.done(), 0), 15, 4, 0, 0, 1);
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
    for (int step = 0; step < 2; ++step) {
      const StepAccount account = step_account(timeline, step);
      for (const RankAccount& rank : account.ranks) {
        Picoseconds at = rank.time.start;
        for (const StepPiece& piece : rank.pieces) {
          REQUIRE(piece.time.start == at);
          REQUIRE(piece.time.end > at);
          REQUIRE(is_exposed(piece.part) == (piece.axis >= 0));
          at = piece.time.end;
        }
        REQUIRE(at == std::max(rank.time.start, rank.time.end));
        REQUIRE(rank.sums.ended >= 0);
        REQUIRE(rank.sums.cool_down >= 0);
        REQUIRE(rank.sums.total() == account.length);
        // Any division of the step divides the sums.
        const Picoseconds middle = up_to(130);
        StepSums both = sums_within(account, rank, {rank.time.start, middle});
        both += sums_within(account, rank, {middle, rank.time.end});
        both.ended = rank.sums.ended;
        both.cool_down += rank.sums.total() - both.total();
        REQUIRE(both == rank.sums);
      }
    }
  }
}

TEST_CASE("each axis is charged for its own waits, and only its own messages divide them") {
  // Rank 0 waits for tp from 4 to 10, while a message of dp is in flight and arrives.
  Timeline timeline;
  timeline.run().clock = "modelled";
  timeline.run().ranks = 2;
  const NameId tp = timeline.intern("tp"), dp = timeline.intern("dp");
  const auto add = [&](int rank, int lane, Category category, NameId group, Interval time) {
    timeline.add(rank, lane,
                 {.start = time.start,
                  .end = time.end,
                  .name = timeline.intern("all_reduce"),
                  .step = 0,
                  .sequence = 0,
                  .group = group,
                  .group_size = 2,
                  .category = category});
  };
  add(0, 0, Category::step, 0, {0, 30});
  add(1, 0, Category::step, 0, {0, 30});
  add(0, 0, Category::wait, tp, {4, 10});
  add(0, 0, Category::wait, dp, {20, 26});
  const auto message = [&](std::uint64_t id, int lane, NameId group, Interval sent,
                           Interval received) {
    add(1, lane, Category::communication, group, sent);
    add(0, lane + 1, Category::communication, group, received);
    timeline.flow_start(id, 1, lane, sent.start);
    timeline.flow_end(id, 0, lane + 1, received.end);
  };
  message(1, 1, tp, {6, 8}, {8, 10});
  message(2, 3, dp, {3, 7}, {4, 9});
  message(3, 3, dp, {19, 24}, {21, 26});
  timeline.settle();
  const StepAccount account = step_account(timeline, 0);
  REQUIRE(account.axes == std::vector<std::string>{"dp", "tp"});  // equally long: by name
  const RankAccount& rank = account.ranks[0];
  CHECK(rank.sums.axes[0] == Exposed{5, 1, 0});
  CHECK(rank.sums.axes[1] == Exposed{2, 2, 2});
  CHECK(rank.sums.compute == 18);
  CHECK(rank.overlaps[0] == Overlap{10, 0});
}
