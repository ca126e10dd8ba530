// Why a rank was idle, as the timeline shades and explains it.
#include <doctest/doctest.h>

#include <algorithm>
#include <thread>

#include "core/timeline/reader.h"
#include "tests/viz/sample_run.h"
#include "viz/data/explanations.h"
#include "viz/data/finding.h"

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

}  // namespace

TEST_CASE("the timeline's idle time is that of core/trace, and adds up to the bubble") {
  Timeline timeline;
  read_sample(sample_traces(sample_1f1b(4, 8, 3)), timeline);
  Explanations explanations;
  explanations.update(std::chrono::seconds{10});
  for (const StepWindow& step : timeline.steps()) {
    const ExplainedStep* explained = explanations.find(timeline, step);
    REQUIRE(explained);
    Picoseconds idle = 0;
    for (const auto& rank : explained->idle)
      for (const IdleInterval& each : rank) idle += each.time.end - each.time.start;
    CHECK(idle == bubble(timeline, step.step)->idle());
    REQUIRE(explained->path);
    CHECK(explained->path->links == critical_path(timeline, step.step)->links);
  }
}

TEST_CASE("each gap of a worked 1F1B has its cause and a sentence") {
  Timeline timeline;
  read_sample(sample_traces(two_stages()), timeline);
  Explanations explanations;
  explanations.update(std::chrono::seconds{10});
  const ExplainedStep* step = explanations.find(timeline, timeline.steps().front());
  REQUIRE(step);
  const auto words_at = [&](int rank, double time) {
    const RankTimeline& of = *timeline.find_rank(rank);
    Finding finding = find_at(of, *of.compute(), Band::action, time, 1000);
    explain_idle(finding, *step, static_cast<std::size_t>(rank), time);
    return finding_words(timeline, finding);
  };
  const auto fill = words_at(1, 0.5 * ms);
  CHECK(fill[0] == "idle: warm-up");
  CHECK(fill[1] ==
        "The pipeline fills: this rank can start only after the forward of microbatch 0 on stage "
        "0.");
  CHECK(fill[2] == "1.00 ms: warm-up 1.00 ms");
  // F0 and B0 on rank 1 take until 4 ms.
  const auto wait = words_at(0, 3.0 * ms);
  CHECK(wait[0] == "idle: waiting");
  CHECK(wait[1] ==
        "The schedule has nothing else to run until the backward of microbatch 0 on stage 1 is "
        "done.");
  CHECK(wait[2] == "2.00 ms: waiting 2.00 ms");
  CHECK(wait[3] == "2.00 ms to 4.00 ms");
  const auto drain = words_at(1, 11.0 * ms);
  CHECK(drain[0] == "idle: cool-down");
  // Work is not explained as idle time.
  CHECK(words_at(1, 1.5 * ms)[0] == "forward of microbatch 0 on stage 1");
}

TEST_CASE("an interval's causes are listed by size, and the largest one gives its colour") {
  IdleInterval idle{.time = {0, 10 * ms}};
  idle.causes[static_cast<std::size_t>(IdleCause::messages)] = 6 * ms;
  idle.causes[static_cast<std::size_t>(IdleCause::straggler)] = 4 * ms;
  CHECK(main_cause(idle) == IdleCause::messages);
  CHECK(cause_words(idle.causes) == "messages 6.00 ms, straggler 4.00 ms");
  CHECK(idle_sentence(idle) == "The time goes to messages between stages.");
  std::swap(idle.causes[3], idle.causes[4]);
  idle.stage = 2;
  idle.microbatch = 5;
  idle.category = Category::forward;
  CHECK(idle_sentence(idle) ==
        "Actions that take longer than usual delay the forward of microbatch 5 on stage 2.");
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

namespace {

/// Returns whether two analyses agree.
bool same_idle(const std::vector<std::vector<IdleInterval>>& a,
               const std::vector<std::vector<IdleInterval>>& b) {
  return std::ranges::equal(a, b, [](const auto& one, const auto& other) {
    return std::ranges::equal(one, other, [](const IdleInterval& x, const IdleInterval& y) {
      return x.time == y.time && x.causes == y.causes && x.stage == y.stage &&
             x.microbatch == y.microbatch && x.category == y.category;
    });
  });
}

}  // namespace

TEST_CASE("the copy of a step has the step's idle time and causes") {
  Timeline timeline;
  read_sample(sample_traces(sample_1f1b(4, 8, 3)), timeline);
  for (const StepWindow& step : timeline.steps()) {
    const auto idle = idle_intervals(timeline, step.step);
    REQUIRE(idle.size() == 4);
    CHECK(same_idle(idle_intervals(copy_of_step(timeline, step), step.step), idle));
  }
}

TEST_CASE("a step of many spans is explained by another thread") {
  Timeline timeline;
  constexpr int ranks = 4, microbatches = 8000;
  for (int rank = 0; rank < ranks; ++rank) {
    for (const bool forward : {true, false}) {
      for (int i = 0; i < microbatches; ++i) {
        // A pipeline with gaps between actions, all forward ones first.
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
  const auto expected = idle_intervals(timeline, 0);
  REQUIRE(expected.size() == ranks);

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
  CHECK(same_idle(found->idle, expected));
  CHECK_FALSE(found->path);

  // A picture waits for the analysis.
  Explanations patient;
  patient.update(std::chrono::hours{1});
  found = patient.find(timeline, step);
  REQUIRE(found);
  CHECK(same_idle(found->idle, expected));
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
  CHECK(first->updates[0].time == first->updates[1].time);
  const auto last = data_chain(timeline, 0, 1, 2 * ms);
  REQUIRE(last);
  CHECK(words(last->before) == "0F0 1F0 ");
  CHECK(words({last->action}) == "1B0 ");
  CHECK(words(last->after) == "0B0 ");
  CHECK_FALSE(data_chain(timeline, 0, 1, ms / 2));
  CHECK_FALSE(data_chain(timeline, 7, 0, 0));
}
