#include <doctest/doctest.h>

#include <string>
#include <vector>

#include "core/base/error.h"
#include "core/device/stream.h"

using namespace lockstep;

namespace {

constexpr Picoseconds ms = 1'000'000'000;

/// A stream and its trace, on a modelled clock on which a FLOP takes 1 ps and launches cost
/// nothing.
struct Bench {
  explicit Bench(FixedTimes times = {}, DeviceKind device = DeviceKind::cpu)
      : clock(Clock::modelled(Cluster{.flops = 1e12}, times)), stream(clock, trace, 0, device) {
    trace.set_kernels(true);
  }
  void compute(double flops) {
    stream.launch({.name = "kernel"}, {.flops = flops}, [](const Kernels&, Queue) {});
  }
  /// Returns "name start..end" for each span since the last call, in the order in which the spans
  /// ended.
  std::vector<std::string> spans() {
    std::vector<std::string> found;
    for (const TraceEvent& event : trace.drain())
      found.push_back(std::string{event.span.name} + " " + std::to_string(event.start) + ".." +
                      std::to_string(event.end));
    return found;
  }

  Clock clock;
  Recorder trace;
  Stream stream;
};

using Spans = std::vector<std::string>;

}  // namespace

TEST_CASE("a launch runs its work and is charged the cluster's cost") {
  Bench bench;
  int runs = 0;
  bench.stream.launch({.name = "a"}, {.flops = 100}, [&](const Kernels&, Queue) { ++runs; });
  bench.stream.launch({.name = "b"}, {.flops = 50}, [&](const Kernels&, Queue) { ++runs; });
  CHECK(runs == 2);
  CHECK(bench.stream.now() == 150);
  CHECK(bench.stream.record().time == 150);
  CHECK(bench.spans() == Spans{"a 0..100", "b 100..150"});
}

TEST_CASE("kernel spans are recorded only on request; their cost is always charged") {
  Bench bench;
  bench.trace.set_kernels(false);
  bench.compute(70);
  CHECK(bench.stream.now() == 70);
  CHECK(bench.spans().empty());
}

TEST_CASE("the meta device charges and runs nothing") {
  Bench bench{{}, DeviceKind::meta};
  bool ran = false;
  bench.stream.launch({.name = "a"}, {.flops = 100}, [&](const Kernels&, Queue) { ran = true; });
  CHECK_FALSE(ran);
  CHECK(bench.stream.now() == 100);
}

TEST_CASE("ranges nest, and span exactly their contents") {
  Bench bench;
  bench.compute(5);
  const int result = bench.stream.range({.name = "outer", .category = Category::step}, [&] {
    bench.compute(10);
    bench.stream.range({.name = "inner", .category = Category::forward},
                       [&] { bench.compute(20); });
    bench.compute(30);
    return 42;
  });
  CHECK(result == 42);
  CHECK(bench.spans() == Spans{"kernel 0..5", "kernel 5..15", "kernel 15..35", "inner 15..35",
                               "kernel 35..65", "outer 5..65"});
}

TEST_CASE("a range that throws is recorded") {
  Bench bench;
  CHECK_THROWS_AS(bench.stream.range({.name = "broken"},
                                     [&] {
                                       bench.compute(9);
                                       throw 1;
                                     }),
                  int);
  CHECK(bench.spans() == Spans{"kernel 0..9", "broken 0..9"});
}

TEST_CASE("fixed times replace the cost of a range's contents") {
  Bench bench{FixedTimes::parse("forward=1ms,backward=2ms")};
  const auto action = [&](Category category) {
    bench.stream.range({.name = "action", .category = category}, [&] { bench.compute(1e9); });
  };
  action(Category::forward);
  CHECK(bench.stream.now() == ms);
  action(Category::backward);
  CHECK(bench.stream.now() == 3 * ms);
  action(Category::optimizer);  // has no fixed time, so it costs nothing
  CHECK(bench.stream.now() == 3 * ms);
  bench.compute(1e9);
  CHECK(bench.stream.now() == 3 * ms);
  bench.stream.range({.name = "step", .category = Category::step}, [&] {
    action(Category::forward);
    action(Category::backward);
  });
  CHECK(bench.stream.now() == 6 * ms);
}

TEST_CASE("a modelled time above 46 days is refused, at the latest by the next kernel") {
  Bench bench{{}, DeviceKind::meta};
  bench.compute(3e18);
  CHECK_THROWS_AS(bench.compute(3e18), UsageError);
  Bench fixed{FixedTimes::parse("forward=1000000s")};
  for (int i = 0; i < 20; ++i)
    fixed.stream.range({.name = "action", .category = Category::forward}, [] {});
  CHECK_THROWS_AS(fixed.compute(1), UsageError);
}

TEST_CASE("waiting takes the later of two times, and is recorded as a span if it takes any time") {
  Bench bench;
  bench.compute(100);
  const Span why{.name = "recv", .category = Category::wait};
  bench.spans();
  bench.stream.wait({40}, why);
  bench.stream.wait({100}, why);
  CHECK(bench.stream.now() == 100);
  CHECK(bench.spans().empty());
  bench.stream.wait({170}, why);
  CHECK(bench.stream.now() == 170);
  CHECK(bench.spans() == Spans{"recv 100..170"});

  Bench other;
  other.compute(30);
  other.stream.wait(bench.stream.record(), why);
  CHECK(other.stream.now() == 170);
}

TEST_CASE("on the wall clock a span has its real duration, and waiting is not charged") {
  const Clock clock = Clock::wall();
  Recorder trace;
  const int lane = trace.add_lane("another");
  Stream stream{clock, trace, lane, DeviceKind::cpu};
  const Picoseconds before = clock.now();
  stream.range({.name = "all"}, [&] {
    stream.launch({.name = "kernel"}, {.flops = 1e30}, [](const Kernels&, Queue) {});
  });
  const Picoseconds after = clock.now();
  stream.wait({after + 3600 * 1000 * ms}, {.name = "recv"});
  const auto events = trace.drain();
  REQUIRE(events.size() == 1);
  CHECK(events[0].lane == lane);
  CHECK(events[0].start >= before);
  CHECK(events[0].end >= events[0].start);
  CHECK(events[0].end <= after);
}

TEST_CASE("fixed times have no effect on the wall clock") {
  Recorder silent{false};
  const Clock clock = Clock::wall();
  Stream stream{clock, silent, 0, DeviceKind::cpu};
  CHECK_FALSE(clock.fixed(Category::forward));
  stream.range({.name = "f", .category = Category::forward}, [] {});
  CHECK(silent.drain().empty());
  CHECK(silent.span_count() == 0);
}
