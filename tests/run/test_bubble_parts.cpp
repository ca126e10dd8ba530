#include <doctest/doctest.h>

#include <algorithm>
#include <random>

#include "tests/run/timelines.h"
#include "viz/read/report/bubble_parts.h"
#include "viz/read/timeline/analysis.h"

using namespace lockstep;
using namespace lockstep::testing;

namespace {

/// The formula's bubble for GPipe with 2 stages and 2 microbatches: (p - 1) / (m + p - 1) = 1 / 3.
constexpr double formula = 1.0 / 3;

ObservedBubble observed(HandWritten& written, int steps = 1) {
  return observe_bubble(written.done(), {.name = "m = 2", .steps = steps, .microbatches = 2},
                        {.formula = "(p-1)/(m+p-1)", .bubble = formula, .stages = 2});
}

void check_parts(HandWritten& written, double uneven, double actions, double messages) {
  const auto [share, step, window, parts] = observed(written);
  REQUIRE(share);
  REQUIRE(parts);
  CHECK(parts->formula == formula);
  CHECK(parts->uneven == doctest::Approx(uneven).epsilon(1e-12));
  CHECK(parts->actions == doctest::Approx(actions).epsilon(1e-12));
  CHECK(parts->messages == doctest::Approx(messages).epsilon(1e-12));
  CHECK(*share == doctest::Approx(formula + uneven + actions + messages).epsilon(1e-12));
}

/// Writes a step of equal stages on ranks `first` and `first` + 1. A forward takes 1, a backward
/// takes 2, and each message is delayed by `delay`.
void write_equal_stages(HandWritten& written, int delay = 0, int begin = 0, int step = 0,
                        int first = 0) {
  const int b = begin;
  const int d = delay;
  const int last = first + 1;
  written.forward(first, 0, b, b + 1, step).forward(first, 1, b + 1, b + 2, step);
  written.forward(last, 0, b + 1 + d, b + 2 + d, step).forward(last, 1, b + 2 + d, b + 3 + d, step);
  written.backward(last, 0, b + 3 + d, b + 5 + d, step);
  written.backward(last, 1, b + 5 + d, b + 7 + d, step);
  written.backward(first, 0, b + 5 + 2 * d, b + 7 + 2 * d, step);
  written.backward(first, 1, b + 7 + 2 * d, b + 9 + 2 * d, step);
}

}  // namespace

TEST_CASE("equal stages and free messages have the formula's bubble and nothing else") {
  HandWritten written;
  write_equal_stages(written);
  check_parts(written, 0, 0, 0);
}

TEST_CASE("stages with different times are uneven") {
  // Stage 1 takes twice as long: of 15 units each, rank 0 works for 6 and rank 1 for 12, so the
  // bubble is 12 / 30.
  HandWritten written;
  written.forward(0, 0, 0, 1).forward(0, 1, 1, 2).forward(1, 0, 1, 3).forward(1, 1, 3, 5);
  written.backward(1, 0, 5, 9).backward(1, 1, 9, 13).backward(0, 0, 9, 11).backward(0, 1, 13, 15);
  check_parts(written, 0.4 - formula, 0, 0);
}

TEST_CASE("an action that took longer than its peers makes actions uneven") {
  // The second forward of stage 1 takes 3 instead of 1: of 2 * 11 units, 6 + 8 are spent working.
  HandWritten written;
  written.forward(0, 0, 0, 1).forward(0, 1, 1, 2).forward(1, 0, 1, 2).forward(1, 1, 2, 5);
  written.backward(1, 0, 5, 7).backward(1, 1, 7, 9).backward(0, 0, 7, 9).backward(0, 1, 9, 11);
  check_parts(written, 0, 8.0 / 22 - formula, 0);
}

TEST_CASE("the remainder is messages") {
  // Each message takes 1, so the step takes 11 instead of 9: of 2 * 11 units, 12 are spent working.
  HandWritten written;
  write_equal_stages(written, 1);
  check_parts(written, 0, 0, 10.0 / 22 - formula);
}

TEST_CASE("all causes at once: each has its share") {
  // Stage 1 takes twice as long, its second forward takes 1 more, and each message takes 2:
  //   by stages    0.4, as above
  //   by actions   F 0-1 1-2 | 1-3 3-6, B | 6-10 10-14, 10-12 14-16: 16 in all, 6 + 13 of 32
  //   observed     20 in all, 19 of 40
  HandWritten written;
  written.forward(0, 0, 0, 1).forward(0, 1, 1, 2).forward(1, 0, 3, 5).forward(1, 1, 5, 8);
  written.backward(1, 0, 8, 12).backward(1, 1, 12, 16);
  written.backward(0, 0, 14, 16).backward(0, 1, 18, 20);
  check_parts(written, 0.4 - formula, 13.0 / 32 - 0.4, 21.0 / 40 - 13.0 / 32);
}

TEST_CASE("of several steps, the one with the median bubble is broken down") {
  HandWritten written;
  write_equal_stages(written, 50, 0, 0);
  write_equal_stages(written, 0, 1000, 1);
  write_equal_stages(written, 1, 2000, 2);
  const auto [share, step, window, parts] = observed(written, 3);
  REQUIRE(share);
  REQUIRE(parts);
  CHECK(*share == doctest::Approx(10.0 / 22));
  CHECK(parts->messages == doctest::Approx(10.0 / 22 - formula));
}

TEST_CASE("the parts add up, whatever happened") {
  std::mt19937 random{8};
  const auto some = [&] { return 1 + static_cast<int>(random() % 9); };
  for (int round = 0; round < 200; ++round) {
    // Random times that keep GPipe's order.
    HandWritten written;
    const int f[4] = {some(), some(), some(), some()};
    int free0 = 0;
    int free1 = 0;
    int ends[2] = {};
    for (int m = 0; m < 2; ++m) {
      written.forward(0, m, free0, free0 + f[m]);
      free0 += f[m];
      const int start = std::max(free1, free0 + some() - 1);
      written.forward(1, m, start, start + f[2 + m]);
      free1 = start + f[2 + m];
    }
    for (int m = 0; m < 2; ++m) {
      const int length = some();
      written.backward(1, m, free1, free1 + length);
      ends[m] = free1 += length;
    }
    for (int m = 0; m < 2; ++m) {
      const int start = std::max(free0, ends[m] + some() - 1);
      const int length = some();
      written.backward(0, m, start, start + length);
      free0 = start + length;
    }
    const auto [share, step, window, parts] = observed(written);
    REQUIRE(share);
    REQUIRE(parts);
    CHECK(parts->formula + parts->uneven + parts->actions + parts->messages ==
          doctest::Approx(*share).epsilon(1e-12));
    CHECK(*share == bubble(written.done(), 0)->share());
    CHECK(step == 0);
    CHECK(window == bubble(written.done(), 0)->window);
  }
}

TEST_CASE("of several pipelines, the parts are those of the one asked for") {
  HandWritten written;
  write_equal_stages(written);
  write_equal_stages(written, 0, 0, 0, /*first=*/2);
  const auto parts_of = [&](const std::vector<int>& pipeline) {
    return observe_bubble(written.done(), {.steps = 1, .microbatches = 2}, {.bubble = formula},
                          pipeline)
        .parts;
  };
  REQUIRE(parts_of({0, 1}));
  CHECK(parts_of({0, 1})->uneven == doctest::Approx(0).epsilon(1e-12));
  CHECK(parts_of({0, 1})->messages == doctest::Approx(0).epsilon(1e-12));
}

TEST_CASE("without a formula or pipeline actions there is nothing to break down") {
  HandWritten written;
  write_equal_stages(written);
  const ObservedBubble without = observe_bubble(written.done(), {.steps = 1}, {});
  CHECK(without.share);  // it is observed even without a prediction
  CHECK_FALSE(without.parts);
  CHECK_FALSE(observe_bubble(written.done(), {.first_step = 5, .steps = 1}, {.bubble = 0.5}).share);
  HandWritten plain;
  plain.stretch(0, "forward", Category::forward, 0, 5);
  CHECK_FALSE(observe_bubble(plain.done(), {.steps = 1}, {.bubble = 0.5}).share);
}

TEST_CASE("a trace with a missing action is not a schedule, and has no parts") {
  HandWritten written;
  written.forward(0, 0, 0, 1).forward(1, 0, 1, 2).backward(1, 0, 2, 4);
  const ObservedBubble seen =
      observe_bubble(written.done(), {.steps = 1, .microbatches = 1}, {.bubble = formula});
  CHECK(seen.share);
  CHECK_FALSE(seen.parts);
}
