#include <doctest/doctest.h>

#include "tests/run/timelines.h"
#include "viz/read/report/stage_balance.h"

using namespace lockstep;
using namespace lockstep::testing;

namespace {

/// Two stages with two microbatches: F = 1 and B = 2 on stage 0, F = 2 and B = 5 on stage 1.
const Timeline& uneven(HandWritten& written, int step = 0) {
  written.forward(0, 0, 0, 1, step).forward(0, 1, 1, 2, step);
  written.forward(1, 0, 1, 3, step).forward(1, 1, 3, 5, step);
  written.backward(1, 0, 5, 10, step).backward(1, 1, 10, 15, step);
  written.backward(0, 0, 10, 12, step).backward(0, 1, 15, 17, step);
  return written.done();
}

}  // namespace

TEST_CASE("the slowest stage by its time per microbatch, against the mean") {
  HandWritten written;
  const auto seen = observe_balance(uneven(written), 0, {0, 1}, 2, 2);
  REQUIRE(seen);
  CHECK(seen->times == std::vector<Picoseconds>{3'000'000, 7'000'000});
  CHECK(seen->slowest == 1);
  CHECK(seen->mean == 5'000'000);
  const std::string pace =
      "stage 1 takes longest: 0.007 ms per microbatch, 40.0 % above the mean of 0.005\n";
  CHECK(balance_lines(*seen, false) ==
        pace + "with --clock modelled, this report also proposes a split\n");
  CHECK(balance_lines(*seen, true) == pace +
                                          "no split is proposed: layers that communicate, blocking "
                                          "sends and unlike replicas can't be simulated\n");
  // Only the ranks of one pipeline count, and only if all its stages have actions.
  CHECK_FALSE(observe_balance(written.done(), 0, {0}, 2, 2));
  CHECK_FALSE(observe_balance(written.done(), 1, {0, 1}, 2, 2));
  CHECK_FALSE(observe_balance(written.done(), 0, {0, 1}, 3, 2));
}

TEST_CASE("the proposal's line, with and without a better split, and equal stages") {
  StageBalance seen{.times = {3'000'000, 7'000'000}, .slowest = 1, .mean = 5'000'000};
  seen.proposal = {.split = {2, 2},
                   .step = 17'000'000,
                   .better = {3, 1},
                   .better_step = 14'000'000,
                   .embedding = 0,
                   .block = 1'500'000,
                   .head = 4'000'000};
  CHECK(
      balance_lines(seen, true) ==
      "stage 1 takes longest: 0.007 ms per microbatch, 40.0 % above the mean of 0.005 (a block "
      "takes 0.002, the embedding 0.000, the head 0.004)\n"
      "--split 3,1 is better: the pipeline's actions take 0.014 ms instead of 0.017, simulated\n");
  seen.proposal->better = seen.proposal->split;
  seen.times = {5'000'000, 5'000'000};
  seen.proposal->block = 0;
  CHECK(balance_lines(seen, true) ==
        "all stages take 0.005 ms per microbatch\n"
        "no split is better than 2,2: the pipeline's actions take 0.017 ms, simulated\n");
}
