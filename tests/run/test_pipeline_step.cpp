#include <doctest/doctest.h>

#include "tests/run/timelines.h"
#include "viz/read/report/pipeline_step.h"

using namespace lockstep;
using namespace lockstep::testing;

namespace {

/// Writes GPipe on two equal stages with two microbatches, F = 1 and B = 2, free messages, and a
/// gap of `delay` between the first rank's two forwards that nothing in the trace explains.
void write_step(HandWritten& written, int begin, int step, int delay = 0) {
  const int b = begin;
  written.forward(0, 0, b, b + 1, step).forward(1, 0, b + 1, b + 2, step);
  const int d = b + delay;
  written.forward(0, 1, d + 1, d + 2, step).forward(1, 1, d + 2, d + 3, step);
  written.backward(1, 0, d + 3, d + 5, step).backward(1, 1, d + 5, d + 7, step);
  written.backward(0, 0, d + 5, d + 7, step).backward(0, 1, d + 7, d + 9, step);
}

bool contains(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

}  // namespace

TEST_CASE("the last step of a phase that has actions is shown") {
  HandWritten written;
  write_step(written, 0, 0);
  write_step(written, 100, 1);
  written.stretch(0, "optimizer", Category::optimizer, 200, 210, 2);
  const auto seen = observe_step(written.done(), {.first_step = 0, .steps = 3});
  REQUIRE(seen);
  CHECK(seen->step == 1);
  CHECK_FALSE(observe_step(written.done(), {.first_step = 2, .steps = 5}));
}

TEST_CASE("rows by rank: the parts of the bubble, and '=' for the predicted peak in flight") {
  HandWritten written;
  write_step(written, 0, 0);
  const auto seen = observe_step(written.done(), {.steps = 1});
  REQUIRE(seen);
  constexpr Picoseconds us = 1'000'000;
  StepAccount account{.step = 0, .length = 9 * us};
  account.ranks = {{.rank = 0, .time = {0, 9 * us}, .pieces = {}, .sums = {}, .overlaps = {}},
                   {.rank = 1, .time = {0, 7 * us}, .pieces = {}, .sums = {}, .overlaps = {}}};
  account.ranks[0].sums = {.waiting = 3 * us};
  account.ranks[0].pieces = {{.time = {2 * us, 3 * us},
                              .part = StepPart::waiting,
                              .stage = 1,
                              .microbatch = 1,
                              .category = Category::backward},
                             {.time = {3 * us, 5 * us},
                              .part = StepPart::waiting,
                              .stage = 1,
                              .microbatch = 0,
                              .category = Category::backward}};
  account.ranks[1].sums = {.cool_down = 2 * us, .warm_up = 1 * us};
  const std::string text = bubble_by_part(*seen, account, {0, 1}, {2, 3});
  CAPTURE(text);
  CHECK(contains(text,
                 "  bubble in step 0, ms   bubble   warm-up   waiting   cool-down   microbatches"));
  CHECK(contains(text,
                 "  rank 0                  0.003     0.000     0.003       0.000            2 ="));
  CHECK(contains(text,
                 "  rank 1                  0.003     0.001     0.000       0.002          3 / 2"));
  CHECK(contains(text, "0.002 for backward 0 of stage 1"));
  const std::string one = bubble_by_part(*seen, account, {1}, {std::nullopt, std::nullopt});
  CAPTURE(one);
  CHECK_FALSE(contains(one, "rank 0"));
  CHECK_FALSE(contains(one, "2 ="));
  CHECK(contains(one, "ranks of the first of 2 pipelines"));
}

TEST_CASE("with several chunks per rank, the table counts pairs, not microbatches") {
  // One microbatch passes through four stages on two ranks, so at its peak, each rank keeps the
  // activations of both of its chunks: two pairs of a chunk and the microbatch.
  HandWritten written;
  for (int stage = 0; stage < 4; ++stage) {
    const int back = 4 + 2 * (3 - stage);
    written.action(stage % 2, Category::forward, 0, stage, stage + 1, 0, stage);
    written.action(stage % 2, Category::backward, 0, back, back + 2, 0, stage);
  }
  const auto seen = observe_step(written.done(), {.steps = 1});
  REQUIRE(seen);
  StepAccount account{.step = 0};
  account.ranks = {{.rank = 0, .time = {}, .pieces = {}, .sums = {}, .overlaps = {}},
                   {.rank = 1, .time = {}, .pieces = {}, .sums = {}, .overlaps = {}}};
  const std::string text = bubble_by_part(*seen, account, {0, 1}, {2, 2});
  CAPTURE(text);
  CHECK(contains(text, "2 ="));
  CHECK_FALSE(contains(text, "microbatches"));
  CHECK(contains(text, "   microbatch x chunk   "));
  CHECK(contains(text, "  microbatch x chunk: the most pairs in flight at a time"));
}

TEST_CASE("the parts of the critical path; of many stages, their sum and the longest") {
  HandWritten written;
  write_step(written, 0, 0);
  CHECK(critical_path_line(*observe_step(written.done(), {.steps = 1})) ==
        "critical path of step 0's actions: 0.009 ms = stage 0 0.005 + stage 1 0.004 + transfer "
        "0.000 + "
        "latency 0.000\n");
  // Twelve forwards in a row, the last ones longer.
  HandWritten many;
  for (int rank = 0, at = 0; rank < 12; at += 10 + rank, ++rank)
    many.forward(rank, 0, at, at + 10 + rank);
  PipelineStep seen{.path = {.window = {0, 186'000'000}}};
  for (const auto& rank : many.done().ranks()) {
    const TimelineSpan& span = rank->compute()->rows(Band::action).front().front();
    seen.path.links.push_back(
        {.kind = PathLink::Kind::action, .time = {span.start, span.end}, .stage = rank->rank});
  }
  CHECK(critical_path_line(seen) ==
        "critical path of step 0's actions: 0.186 ms = 12 stages 0.186 (most on stage 11: 0.021) + "
        "transfer 0.000 + latency 0.000\n");
}
