// The viewer's drawings over time: memory, losses, and its own latency.
#include <doctest/doctest.h>

#include "viz/data/layout/series.h"
#include "viz/data/window/latency.h"

using namespace lockstep;
using namespace lockstep::viz;

TEST_CASE("no memory peak is lost between pixels") {
  Timeline timeline;
  for (int i = 0; i < 10000; ++i) {
    const std::int64_t bytes = i == 4321 ? 999 : 10 + i % 7;
    timeline.sample_memory(0, {i * Picoseconds{100}, {1, 2, 3, bytes, 0}});
  }
  const RankTimeline& rank = timeline.rank(0);
  const auto columns = memory_columns(rank, {-1000, 1e6}, 50);
  CHECK(columns.front()[0] == 1);
  float highest = 0;
  for (const auto& column : columns) highest = std::max(highest, column[3]);
  CHECK(highest == 999);
  CHECK(rank.memory_peak->total() == 1005);
  CHECK(memory_columns(rank, {-1000, -500}, 3)[2] == MemoryColumn{});
}

TEST_CASE("the loss of a step is the mean over ranks that report it") {
  Timeline timeline;
  timeline.rank(0).losses = {{0, 4.0}, {1, 3.0}};
  timeline.rank(1).losses = {{0, 2.0}};
  const auto points = loss_series(timeline);
  REQUIRE(points.size() == 2);
  CHECK(points[0].loss == 3.0);
  CHECK(points[1].loss == 3.0);
}

TEST_CASE("latency runs from a span's end on its rank's clock to the frame that shows it") {
  Timeline timeline;
  timeline.run().clock = "wall";
  timeline.rank(0).clock_offset_ns = 1'000'000;
  LatencyMeter meter;
  meter.fresh() = {{0, 5 * ms}, {0, 50 * ms}, {0, 1 * ms}};
  meter.swapped(timeline, {2.0 * ms, 10.0 * ms}, 1'000'000 + 9'000'000);
  CHECK(meter.summary().count == 1);
  CHECK(meter.summary().max == doctest::Approx(4));
  CHECK(meter.summary().not_shown == 2);  // one never, one not yet
  meter.swapped(timeline, {2.0 * ms, 60.0 * ms}, 1'000'000 + 70'000'000);
  CHECK(meter.summary().count == 2);
  CHECK(meter.summary().max == doctest::Approx(20));
  CHECK(meter.summary().not_shown == 1);
}
