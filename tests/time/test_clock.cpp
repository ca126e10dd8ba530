#include <doctest/doctest.h>

#include <chrono>
#include <map>

#include "core/base/error.h"
#include "core/time/clock.h"
#include "tests/support/complaints.h"

using namespace lockstep;
using namespace lockstep::testing;

TEST_CASE("fixed times are read with their units") {
  const FixedTimes times = FixedTimes::parse(
      "forward=1.5ms,backward=2s,backward_input=3us,backward_weight=4ns,optimizer=0s");
  CHECK(times.any());
  CHECK(times.of(Category::forward) == 1'500'000'000);
  CHECK(times.of(Category::backward) == 2'000'000'000'000);
  CHECK(times.of(Category::backward_input) == 3'000'000);
  CHECK(times.of(Category::backward_weight) == 4'000);
  CHECK(times.of(Category::optimizer) == 0);
  CHECK_FALSE(times.of(Category::step));
  const FixedTimes one = FixedTimes::parse("forward=0.0004ns");
  CHECK(one.of(Category::forward) == 0);
  CHECK_FALSE(one.of(Category::backward));
  CHECK_FALSE(FixedTimes{}.any());
}

TEST_CASE("an invalid time gives one line that names the flag, the part and a valid form") {
  for (const char* text : {"forward",
                           "forward=",
                           "forward=1",
                           "forward=ms",
                           "forward=-1ms",
                           "forward=1 ms",
                           "forward=1min",
                           "forward=nan",
                           "forward=nanms",
                           "forward=infs",
                           "forward=1e300s",
                           "forward=1ms,",
                           "forward=1ms,,backward=1ms",
                           "step=1ms",
                           "communication=1ms",
                           "=1ms",
                           "Forward=1ms",
                           "forward=1ms;backward=2ms",
                           "forward=1ms,forward",
                           "forward=1ms,",
                           "forward=1ms,forward=2ms",
                           "forward=0ms,backward=2ms,forward=0ms",
                           ",",
                           ""}) {
    CAPTURE(std::string{text});
    CHECK(unlike(complaint_of<UsageError>([&] { FixedTimes::parse(text); }),
                 {std::string{"--time "} + text}) == "");
  }
  CHECK(unlike(complaint_of<UsageError>([] { FixedTimes::parse("foward=1ms"); }),
               {"'foward'", "forward, backward"}) == "");
  CHECK(unlike(complaint_of<UsageError>([] { FixedTimes::parse("forward=1h"); }),
               {"'1h'", "1.5ms"}) == "");
}

TEST_CASE(
    "the halves of a backward pass have times only together, and with those of whole passes") {
  for (const char* text : {"backward_input=1ms,backward_weight=1ms", "backward_weight=0s",
                           "backward=2ms,backward_input=1ms", "backward=2ms,backward_weight=1ms"})
    CHECK(unlike(complaint_of<UsageError>([&] { FixedTimes::parse(text); }),
                 {std::string{"--time "} + text, "give all three"}) == "");
}

TEST_CASE("the wall clock returns the time since its start") {
  Clock clock = Clock::wall();
  CHECK_FALSE(clock.is_modelled());
  const Picoseconds before = clock.now();
  CHECK(before >= 0);
  CHECK(clock.now() >= before);
  CHECK(clock.since_start(clock.start_nanoseconds() + 7) == 7000);
  clock.set_start_nanoseconds(clock.start_nanoseconds() - 1'000'000'000);
  CHECK(clock.now() >= 1'000'000'000'000);
}

TEST_CASE("with fixed times a kernel costs nothing; without them, the cluster's cost") {
  const Cluster cluster{.flops = 1e9};
  const Cost cost{.flops = 5};
  CHECK(Clock::modelled(cluster).cost(cost) == 5000);
  CHECK(Clock::modelled(cluster, FixedTimes::parse("backward=1s")).cost(cost) == 0);
}

TEST_CASE("a slow rank's kernels and fixed times take longer, by its factor") {
  const ModelledTime time{.cluster = {.flops = 1e9}, .times = {}, .slow = {{1, 1.5}, {3, 0.25}}};
  const Cost cost{.flops = 5};
  CHECK(Clock::modelled(time, 0).cost(cost) == 5000);
  CHECK(Clock::modelled(time, 1).cost(cost) == 7500);
  CHECK(Clock::modelled(time, 3).cost(cost) == 1250);
  ModelledTime fixed = time;
  fixed.times = FixedTimes::parse("forward=1ns");
  CHECK(Clock::modelled(fixed, 1).fixed(Category::forward) == 1500);
  CHECK(Clock::modelled(fixed, 1).cost(cost) == 0);
  CHECK_FALSE(Clock::modelled(fixed, 1).fixed(Category::backward));
}

TEST_CASE(
    "a rank's kernels take their time on its own device, and fixed times are the same on all") {
  ModelledTime time{.cluster = {.flops = 1e9}};
  time.cluster.groups = {{.name = "slow", .ranks = {1, 4}, .flops = 1e8},
                         {.name = "fast", .ranks = {2}, .flops = 5e9, .launch_seconds = 1e-9}};
  time.slow = {{4, 3}};
  const Cost cost{.flops = 5};
  const Picoseconds expected[] = {5000, 50'000, 2000, 5000, 150'000};
  for (int rank = 0; rank < 5; ++rank) {
    CHECK(Clock::modelled(time, rank).cost(cost) == expected[rank]);
    CHECK(Clock::modelled(time, rank).cluster() == time.cluster);
  }
  CHECK(Clock::modelled(time.cluster).cost(cost) == 5000);
  time.times = FixedTimes::parse("forward=1ns");
  CHECK(Clock::modelled(time, 1).fixed(Category::forward) == 1000);
  CHECK(Clock::modelled(time, 1).cost(cost) == 0);
}

TEST_CASE("slow ranks are given as RANK=FACTOR") {
  CHECK(parse_slow("1=1.5", 4) == std::map<int, double>{{1, 1.5}});
  CHECK(parse_slow("0=2,3=0.5", 4) == std::map<int, double>{{0, 2}, {3, 0.5}});
  for (const char* wrong : {"", "1", "1=", "=2", "1=0", "1=-1", "1=x", "1=2,", "4=2", "-1=2",
                            "1=1e9", "1=2,1=3", "1=nan", "1=2 "})
    CHECK_THROWS_AS_MESSAGE(parse_slow(wrong, 4), UsageError, wrong);
}

TEST_CASE("a pace slows a modelled run, and nothing else") {
  const auto seconds_for = [](const Clock& clock, Picoseconds reached) {
    const auto begin = std::chrono::steady_clock::now();
    clock.keep_pace(reached);
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  };
  // If modelled time runs twice as fast as the wall clock, 60 ms of modelled time take 30 ms. The
  // test has no upper bound, because a busy machine could exceed it.
  CHECK(seconds_for(Clock::modelled({}, {}, 2), 60'000'000'000) >= 0.029);
  // If modelled time runs 100,000 times as fast, 1000 s of modelled time take 10 ms. Without a
  // pace, on the wall clock, or for a time that has already passed, there is no wait. The bounds
  // only exclude a wait for the full modelled time.
  CHECK(seconds_for(Clock::modelled({}, {}, 1e5), 1'000'000'000'000'000) < 500);
  const Picoseconds hour = 3'600'000'000'000'000;
  CHECK(seconds_for(Clock::modelled({}), hour) < 1000);
  CHECK(seconds_for(Clock::wall(), hour) < 1000);
  CHECK(seconds_for(Clock::modelled({}, {}, 1), 0) < 1000);
}
