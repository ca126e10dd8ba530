// A rank's activity at each time, as the timeline shades and explains it.
#include <doctest/doctest.h>

#include <algorithm>
#include <thread>

#include "tests/viz/worked_step.h"
#include "viz/data/layout/explanations.h"
#include "viz/data/selection/finding.h"
#include "viz/read/timeline/reader.h"

using namespace lockstep;
using namespace lockstep::viz;

namespace {

/// 1F1B with F = 1 ms, B = 2 ms and free messages, on 2 stages:
///   rank 0: F0 F1 .. B0 F2 B1 .. B2      rank 1: . F0 B0 F1 B1 F2 B2 ..
SampleRun two_stages() {
  SampleRun run = sample_1f1b(2, 3, 2);
  run.times.cluster.within = {};
  return run;
}

/// Returns whether two accounts agree.
bool same(const StepAccount& a, const StepAccount& b) {
  return a.length == b.length && a.axes == b.axes &&
         std::ranges::equal(a.ranks, b.ranks, [](const RankAccount& x, const RankAccount& y) {
           return x.rank == y.rank && x.time == y.time && x.pieces == y.pieces &&
                  x.sums == y.sums &&
                  std::ranges::equal(
                      x.overlaps, y.overlaps, [](const Overlap& m, const Overlap& n) {
                        return m.communication == n.communication && m.hidden == n.hidden;
                      });
         });
}

}  // namespace

TEST_CASE("an explained step has the account of viz/read/timeline and the critical path") {
  Timeline timeline;
  read_sample(sample_traces(sample_1f1b(4, 8, 3)), timeline);
  Explanations explanations;
  explanations.update(std::chrono::seconds{10});
  for (const StepWindow& step : timeline.steps()) {
    const ExplainedStep* explained = explanations.find(timeline, step);
    REQUIRE(explained);
    CHECK(same(explained->account, step_account(timeline, step.step)));
    REQUIRE(explained->path);
    CHECK(explained->path->links == critical_path(timeline, step.step)->links);
    for (const RankAccount& rank : explained->account.ranks)
      for (const StepPiece& piece : rank.pieces)
        CHECK(explained->piece_at(rank.rank, static_cast<double>(piece.time.start)) == &piece);
    CHECK(explained->piece_at(0, -1) == nullptr);
    CHECK(explained->piece_at(9, 0) == nullptr);
  }
}

TEST_CASE("each gap of a worked 1F1B has its part and a sentence") {
  Timeline timeline;
  read_sample(sample_traces(two_stages()), timeline);
  Explanations explanations;
  explanations.update(std::chrono::seconds{10});
  const auto words_at = [&](std::size_t step, int rank, double time) {
    const RankTimeline& of = *timeline.find_rank(rank);
    Finding finding = find_at(of, *of.compute(), Band::action, time, 1000);
    explain_idle(finding, *explanations.find(timeline, timeline.steps()[step]), time);
    return finding_words(timeline, finding);
  };
  const auto fill = words_at(0, 1, 0.5 * ms);
  CHECK(fill[0] == "bubble: warm-up");
  CHECK(fill[1] ==
        "This rank waits for the forward of microbatch 0 on stage 0 before it runs its first "
        "action of the step: the pipeline fills.");
  CHECK(fill[2] == "1.00 ms");
  // F0 and B0 on rank 1 take until 4 ms.
  const auto wait = words_at(0, 0, 3.0 * ms);
  CHECK(wait[0] == "bubble: waiting");
  CHECK(wait[1] ==
        "This rank waits for the backward of microbatch 0 on stage 1, whose result had not been "
        "computed yet.");
  CHECK(wait[2] == "2.00 ms");
  CHECK(wait[3] == "2.00 ms to 4.00 ms");
  CHECK(wait[4] == "rank 0 waits for rank 1   J: go there");
  // Rank 1's step 1 begins at 12 ms; rank 0 ends its step 0 at 14 ms.
  const auto drain = words_at(1, 1, 13.0 * ms);
  CHECK(drain[0] == "bubble: cool-down");
  CHECK(drain[1] ==
        "This rank waits for the forward of microbatch 0 on stage 0. No rank has begun this step's "
        "actions: the pipeline drains from the step before.");
  CHECK(drain[2] == "2.00 ms");
  // Work is not explained as idle time.
  CHECK(words_at(0, 1, 1.5 * ms)[0] == "forward of microbatch 0 on stage 1");
}

TEST_CASE("exposed communication is explained by its axis and part") {
  Timeline timeline;
  add_worked_step(timeline);
  Explanations explanations;
  explanations.update(std::chrono::seconds{10});
  const ExplainedStep* step = explanations.find(timeline, timeline.steps().front());
  REQUIRE(step);
  const auto words_at = [&](double time) {
    const RankTimeline& of = *timeline.find_rank(0);
    Finding finding = find_at(of, *of.compute(), Band::action, time * us, 1000);
    explain_idle(finding, *step, time * us);
    auto words = finding_words(timeline, finding);
    words.resize(3);
    return words;
  };
  using Words = std::vector<std::string>;
  CHECK(words_at(11.5) ==
        Words{"exposed wait: late peer, tp",
              "Compute waits for tp, but no message is on its way: a peer has not sent yet.",
              "1.00 µs"});
  CHECK(words_at(12.5) ==
        Words{"exposed wait: latency, tp",
              "Compute waits for tp: a message is on its way, but no bytes arrive "
              "yet.",
              "1.00 µs"});
  CHECK(words_at(13.5) ==
        Words{"exposed wait: transfer, tp", "Compute waits for tp while bytes move.", "1.00 µs"});
  CHECK(words_at(40)[0] == "exposed wait: transfer, dp");
  CHECK(words_at(40)[2] == "19.0 µs");
  CHECK(words_at(52)[0] == "AdamW");
  // Next to a wait of less than a pixel, the rank computes.
  Finding beside = find_at(*timeline.find_rank(0), *timeline.find_rank(0)->compute(), Band::action,
                           15.0 * us, 30.0 * us);
  beside.kind = Finding::Kind::span;
  beside.span.category = Category::wait;
  explain_idle(beside, *step, 15.0 * us);
  CHECK(beside.kind == Finding::Kind::span);
  CHECK(piece_title({.part = StepPart::other}, "") == "other");
}

TEST_CASE("a step is explained once it is complete on every rank") {
  Timeline timeline;
  const auto add = [&](int rank, Category category, Picoseconds start, Picoseconds end) {
    TimelineSpan span{.start = start, .end = end, .step = 0, .stage = rank, .microbatch = 0};
    span.category = category;
    timeline.add(rank, 0, span);
    timeline.settle();
  };
  timeline.run().ranks = 2;
  add(0, Category::forward, 0, ms);
  add(1, Category::forward, ms, 2 * ms);
  add(0, Category::step, 0, 2 * ms);
  Explanations explanations;
  explanations.update(std::chrono::seconds{10});
  CHECK_FALSE(explanations.find(timeline, timeline.steps().front()));
  CHECK_FALSE(explanations.behind());
  add(1, Category::step, 0, 2 * ms);
  CHECK(explanations.find(timeline, timeline.steps().front()));
}

TEST_CASE("the copy of a step has the step's account") {
  Timeline pipeline, worked;
  read_sample(sample_traces(sample_1f1b(4, 8, 3)), pipeline);
  for (int step = 0; step < 3; ++step) add_worked_step(worked, step, 60 * step);
  // Kernels that compute beside the waits, within and between steps.
  for (Picoseconds at = 0; at < 180; at += 3) {
    TimelineSpan span{.start = at * us, .end = (at + 2) * us, .step = static_cast<int>(at / 60)};
    span.category = Category::kernel;
    worked.add(1, 5, span);
  }
  worked.run().clock = "wall";
  worked.settle();
  for (const Timeline* timeline : {&pipeline, &worked})
    for (const StepWindow& step : timeline->steps()) {
      const StepAccount account = step_account(*timeline, step.step);
      REQUIRE(account.ranks.size() == timeline->ranks().size());
      const Timeline copy = copy_of_step(*timeline, step);
      CHECK(same(step_account(copy, step.step), account));
      CHECK(microbatches_in_flight(copy, step.step).size() ==
            microbatches_in_flight(*timeline, step.step).size());
      CHECK(copy.prediction(step.step).stages == timeline->prediction(step.step).stages);
    }
}

TEST_CASE("a step of many spans is explained by another thread") {
  Timeline timeline;
  constexpr int ranks = 4, microbatches = 8000;
  for (int rank = 0; rank < ranks; ++rank) {
    for (const bool forward : {true, false}) {
      for (int i = 0; i < microbatches; ++i) {
        // A pipeline with gaps between actions, in which all forward actions come first.
        const int slot = forward ? i + rank : 2 * microbatches + i + ranks - rank;
        TimelineSpan span{.start = 1000 * slot, .end = 1000 * slot + 900 - (i * 7 + rank) % 50};
        span.category = forward ? Category::forward : Category::backward;
        span.name = timeline.intern(forward ? "PP:F" : "PP:B");
        span.step = 0;
        span.stage = rank;
        span.microbatch = i;
        timeline.add(rank, 0, span);
      }
    }
    timeline.end(rank, 2 * microbatches);
  }
  timeline.settle();
  const StepWindow step = timeline.steps().front();
  REQUIRE_FALSE(is_small(timeline, step));
  const StepAccount expected = step_account(timeline, 0);
  REQUIRE(expected.ranks.size() == ranks);

  Explanations explanations;
  explanations.update(std::chrono::milliseconds{50});
  CHECK_FALSE(explanations.find(timeline, step));
  CHECK(explanations.analyses());
  const ExplainedStep* found = nullptr;
  for (int i = 0; !found && i < 6000; ++i) {  // a minute
    std::this_thread::sleep_for(std::chrono::milliseconds{10});
    explanations.update(std::chrono::milliseconds{50});
    found = explanations.find(timeline, step);
  }
  REQUIRE(found);
  CHECK_FALSE(explanations.analyses());
  CHECK(same(found->account, expected));
  CHECK_FALSE(found->path);

  // A picture waits until the analysis is complete.
  Explanations patient;
  patient.update(std::chrono::hours{1});
  found = patient.find(timeline, step);
  REQUIRE(found);
  CHECK(same(found->account, expected));
}

TEST_CASE("the chain of an action goes back to the data and on to the optimizer") {
  Timeline timeline;
  read_sample(sample_traces(two_stages()), timeline);
  const auto words = [](const std::vector<PathLink>& links) {
    std::string all;
    for (const PathLink& link : links)
      all += std::to_string(link.stage) + letter_of(link.category) +
             std::to_string(link.microbatch) + " ";
    return all;
  };
  // Rank 0 runs F0 from 0 to 1 ms and F1 from 1 to 2 ms; rank 1 runs F0 from 1 to 2 ms, B0 to 4 ms.
  const auto first = data_chain(timeline, 0, 0, ms);
  REQUIRE(first);
  CHECK(first->before.empty());
  CHECK(words({first->action}) == "0F1 ");
  CHECK(words(first->after) == "1F1 1B1 0B1 ");
  REQUIRE(first->updates.size() == 2);
  CHECK(first->updates[0].time == Interval{12 * ms, 14 * ms});
  CHECK(first->updates[1].time == Interval{10 * ms, 12 * ms});
  const auto last = data_chain(timeline, 0, 1, 2 * ms);
  REQUIRE(last);
  CHECK(words(last->before) == "0F0 1F0 ");
  CHECK(words({last->action}) == "1B0 ");
  CHECK(words(last->after) == "0B0 ");
  CHECK(chain_words(*first) ==
        "It needs no result of an earlier action; 3 later actions depend on it.");
  CHECK(chain_words(*last) ==
        "It needs the results of 2 earlier actions; 1 later action depends on it.");
  DataChain alone;
  alone.before.resize(1);
  CHECK(chain_words(alone) ==
        "It needs the result of 1 earlier action; no later action depends on it.");
  CHECK_FALSE(data_chain(timeline, 0, 1, ms / 2));
  CHECK_FALSE(data_chain(timeline, 7, 0, 0));
}
