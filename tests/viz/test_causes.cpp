// Jumps from a wait or a message to its cause, and back.
#include <doctest/doctest.h>

#include "tests/viz/interactive.h"
#include "tests/viz/worked_step.h"
#include "viz/data/selection/causes.h"

using namespace lockstep;
using namespace lockstep::viz;

namespace {

Finding span_at(const Timeline& timeline, int rank, int tid, Picoseconds start) {
  const RankTimeline& of = *timeline.find_rank(rank);
  for (const auto& lane : of.lanes)
    if (lane->tid() == tid)
      for (const SpanRow& row : lane->rows(Band::action))
        for (const TimelineSpan& span : row)
          if (span.start == start)
            return {.kind = Finding::Kind::span, .rank = &of, .lane = lane.get(), .span = span};
  throw std::runtime_error("no such span");
}

/// A span as (rank, lane, start in µs); (-1, -1, -1) for none.
using Spot = std::array<int, 3>;
Spot spot(const std::optional<Finding>& finding) {
  if (!finding) return {-1, -1, -1};
  return {finding->rank->rank, finding->lane->tid(), static_cast<int>(finding->span.start / us)};
}

/// Follows causes until there are no more.
std::vector<Spot> causes_from(const Timeline& timeline, Finding at) {
  std::vector<Spot> spots;
  while (const auto cause = cause_of(timeline, at)) {
    spots.push_back(spot(cause));
    at = *cause;
    REQUIRE(spots.size() < 100);
  }
  return spots;
}

}  // namespace

TEST_CASE("the causes of a worked step's waits") {
  Timeline timeline;
  add_worked_step(timeline);
  // Rank 0 waits for tp until rank 1's late message arrives, which its longer forward held up.
  CHECK(causes_from(timeline, span_at(timeline, 0, 0, 10 * us)) ==
        std::vector<Spot>{{0, 2, 13}, {1, 1, 12}, {1, 0, 0}});
  // Rank 0 waits for dp; its message was sent after rank 1's backward, which followed rank 1's wait
  // for rank 0's message of tp.
  CHECK(causes_from(timeline, span_at(timeline, 0, 0, 30 * us)) ==
        std::vector<Spot>{
            {0, 4, 31}, {1, 3, 30}, {1, 0, 14}, {1, 0, 12}, {1, 2, 13}, {0, 1, 10}, {0, 0, 0}});
  // The same from the idle time that the timeline shows instead of the wait.
  Finding idle = span_at(timeline, 0, 0, 30 * us);
  idle.kind = Finding::Kind::idle;
  CHECK(spot(cause_of(timeline, idle)) == Spot{0, 4, 31});

  CHECK(spot(effect_of(timeline, span_at(timeline, 0, 1, 10 * us))) == Spot{1, 2, 13});
  CHECK(spot(effect_of(timeline, span_at(timeline, 1, 2, 13 * us))) == Spot{1, 0, 14});
  CHECK(spot(effect_of(timeline, span_at(timeline, 0, 0, 10 * us))) == Spot{0, 0, 14});
  CHECK(spot(effect_of(timeline, span_at(timeline, 0, 0, 14 * us))) == Spot{0, 0, 50});
  CHECK(spot(effect_of(timeline, span_at(timeline, 0, 0, 50 * us))) == Spot{-1, -1, -1});
  CHECK_FALSE(cause_of(timeline, {}));
  CHECK_FALSE(effect_of(timeline, {}));
}

TEST_CASE(
    "the rank that a wait waits for: the one that it names, or the sender of its last message") {
  Timeline timeline;
  add_worked_step(timeline);  // its waits name no rank
  CHECK(awaited_rank(timeline, span_at(timeline, 0, 0, 10 * us)) == 1);
  Finding idle = span_at(timeline, 1, 0, 30 * us);
  idle.kind = Finding::Kind::idle;
  CHECK(awaited_rank(timeline, idle) == 0);
  CHECK_FALSE(awaited_rank(timeline, span_at(timeline, 0, 0, 14 * us)));  // a backward
  CHECK_FALSE(awaited_rank(timeline, span_at(timeline, 0, 1, 10 * us)));  // a message
  CHECK_FALSE(awaited_rank(timeline, {}));
  const auto words = finding_words(timeline, span_at(timeline, 0, 0, 10 * us));
  CHECK(std::ranges::count(words, "rank 0 waits for rank 1   J: go there") == 1);
  Timeline sample;
  read_sample(sample_traces(sample_1f1b(4, 8, 2)), sample);
  for (const auto& rank : sample.ranks())
    for (const TimelineSpan& span : rank->compute()->rows(Band::action).front()) {
      if (span.category != Category::wait) continue;
      REQUIRE(span.peer >= 0);
      CHECK(awaited_rank(sample, span_at(sample, rank->rank, 0, span.start)) == span.peer);
    }
}

TEST_CASE("in a ring, the cause of a message is the one that the rank received before") {
  Timeline timeline;
  const auto add = [&](int rank, int lane, Picoseconds start, Picoseconds end) {
    TimelineSpan span{.start = start * us,
                      .end = end * us,
                      .bytes = 10,
                      .name = timeline.intern("all_gather"),
                      .step = 0,
                      .sequence = 4,
                      .group = timeline.intern("dp")};
    span.category = Category::communication;
    timeline.add(rank, lane, span);
  };
  const auto send = [&](std::uint64_t id, int from, int to, Picoseconds start, Picoseconds end) {
    add(from, 1, start, end);
    add(to, 2, start, end);
    timeline.flow_start(id, from, 1, start * us);
    timeline.flow_end(id, to, 2, end * us);
  };
  for (int rank = 0; rank < 3; ++rank) {
    TimelineSpan span{.start = 0, .end = (rank == 2 ? 9 : 2) * us, .step = 0};
    span.category = Category::forward;
    timeline.add(rank, 0, span);
  }
  send(1, 2, 0, 9, 11);   // the late rank's piece
  send(2, 0, 1, 11, 13);  // is passed on
  TimelineSpan wait{.start = 2 * us,
                    .end = 13 * us,
                    .name = timeline.intern("all_gather"),
                    .step = 0,
                    .sequence = 4,
                    .group = timeline.intern("dp")};
  wait.category = Category::wait;
  timeline.add(1, 0, wait);
  timeline.settle();
  CHECK(causes_from(timeline, span_at(timeline, 1, 0, 2 * us)) ==
        std::vector<Spot>{{1, 2, 11}, {0, 1, 11}, {0, 2, 9}, {2, 1, 9}, {2, 0, 0}});
}

TEST_CASE("a bubble leads to the action on the other stage, and an action to its message") {
  Timeline timeline;
  read_sample(sample_traces(sample_1f1b(4, 8, 2)), timeline);
  const auto first_wait = [&](int rank) {
    for (const TimelineSpan& span : timeline.find_rank(rank)->compute()->rows(Band::action).front())
      if (span.category == Category::wait) return span_at(timeline, rank, 0, span.start);
    throw std::runtime_error("no wait");
  };
  for (int rank = 1; rank < 4; ++rank) {
    const auto cause = cause_of(timeline, first_wait(rank));
    REQUIRE(cause);
    CHECK(cause->rank->rank == rank - 1);
    CHECK(cause->lane->is_compute());
    CHECK(cause->span.category == Category::forward);
    CHECK(cause->span.microbatch == 0);
    const auto sent = effect_of(timeline, *cause);
    REQUIRE(sent);
    CHECK(timeline.name(sent->span.name) == "send");
    const auto received = effect_of(timeline, *sent);
    REQUIRE(received);
    CHECK(received->rank->rank == rank);
    CHECK(spot(cause_of(timeline, *received)) == spot(sent));
    const auto user = effect_of(timeline, *received);
    REQUIRE(user);
    CHECK(user->span.category == Category::forward);
    CHECK(user->span.microbatch == 0);
  }
}

TEST_CASE("J jumps to the cause, Backspace back, and Shift+Backspace forward again") {
  Interactive viewer{sample_1f1b(4, 8, 3)};
  const TimelineSpan action = viewer.action(2, 1, Category::forward, 3);
  viewer.click_on(2, action);
  REQUIRE(viewer.model.selected.span.start == action.start);
  const TimeWindow window = viewer.model.viewport.window();
  viewer.press(keys::j);
  REQUIRE(viewer.model.selected.kind == Finding::Kind::span);
  const Finding first = viewer.model.selected;
  CHECK(first.span.end <= action.start);
  viewer.press(keys::j);
  const Finding second = viewer.model.selected;
  CHECK(spot(second) != spot(first));
  viewer.press(keys::backspace);
  CHECK(spot(viewer.model.selected) == spot(first));
  viewer.press(keys::backspace);
  CHECK(viewer.model.selected.span.start == action.start);
  CHECK(viewer.model.viewport.window() == window);
  set_modifiers(false, true);
  viewer.press(keys::backspace);
  CHECK(spot(viewer.model.selected) == spot(first));
  viewer.press(keys::backspace);
  CHECK(spot(viewer.model.selected) == spot(second));
  viewer.press(keys::backspace);  // nothing is ahead
  CHECK(spot(viewer.model.selected) == spot(second));
  // From the result back to what it led to.
  viewer.press(keys::j);
  set_modifiers(false, false);
  viewer.frame();
  CHECK(viewer.model.selected.span.start >= second.span.start);
}
