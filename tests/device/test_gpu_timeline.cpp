// Tests core/device/gpu_timeline.h with a GPU whose clock and the host's clock run at different
// rates.

#include <doctest/doctest.h>

#include <chrono>
#include <cmath>
#include <thread>

#include "core/device/gpu_timeline.h"
#include "tests/support/stub_gpu.h"

using namespace lockstep;
using namespace lockstep::testing;

namespace {

/// A GPU that is always idle. Its clock gains `ppm` microseconds per second relative to the host's
/// clock.
class DriftingGpu final : public StubGpu {
 public:
  DriftingGpu(const Clock& clock, double ppm) : clock_(clock), ppm_(ppm) {}

  struct At final : Mark {
    explicit At(Picoseconds time_) : time(time_) {}
    Picoseconds time;  ///< by the host's clock
  };
  static Picoseconds time_of(const MarkPtr& mark) { return static_cast<const At&>(*mark).time; }

  MarkPtr record(Queue) override { return std::make_shared<At>(clock_.now()); }
  bool passed(const Mark&) override { return true; }
  double milliseconds(const Mark& from, const Mark& to) override {
    const auto time =
        static_cast<double>(static_cast<const At&>(to).time - static_cast<const At&>(from).time);
    return (1 + ppm_ * 1e-6) * time / 1e9;
  }

 private:
  const Clock& clock_;
  double ppm_;
};

/// A timeline, and the marks of the spans that it recorded.
struct Recorded {
  explicit Recorded(double ppm) : gpu(clock, ppm), timeline(gpu, {}, clock, trace) {
    trace.set_clock(clock);
  }

  /// Records a span of zero length, and returns the difference between its start in the trace and
  /// its true time.
  Picoseconds error_of_span() {
    const MarkPtr mark = gpu.record({});
    timeline.span({.lane = 0,
                   .span = {.name = "kernel", .category = Category::kernel},
                   .start = mark,
                   .end = mark,
                   .launched = DriftingGpu::time_of(mark)});
    timeline.drain();
    Picoseconds error = 0;
    for (const TraceEvent& event : trace.drain())
      if (event.kind == TraceEvent::Kind::span) error = event.start - DriftingGpu::time_of(mark);
    return error;
  }

  Clock clock = Clock::wall();
  Recorder trace;
  DriftingGpu gpu;
  GpuTimeline timeline;
};

void wait(std::chrono::milliseconds time) {
  std::this_thread::sleep_for(time);
}

}  // namespace

TEST_CASE("the error of a GPU's spans stays within the uncertainty, although its clock drifts") {
  for (const double ppm : {-50.0, 0.0, 50.0}) {
    CAPTURE(ppm);
    Recorded run{ppm};
    wait(std::chrono::milliseconds{200});
    const Picoseconds error = run.error_of_span();
    CAPTURE(run.timeline.uncertainty());
    CHECK(std::abs(error) <= run.timeline.uncertainty());
    CHECK(run.timeline.least_delay() >= -run.timeline.uncertainty());
  }
}

TEST_CASE("a second alignment measures the drift, however large") {
  for (const double ppm : {-2000.0, 2000.0}) {
    CAPTURE(ppm);
    Recorded run{ppm};
    wait(std::chrono::milliseconds{1010});
    run.timeline.realign({});
    wait(std::chrono::milliseconds{200});
    const Picoseconds error = run.error_of_span();
    CAPTURE(error);
    CHECK(std::abs(error) <= run.timeline.uncertainty());
    CHECK(std::abs(error) < 100'000'000);  // of the 400 us by which the clocks differ since then
  }
}

TEST_CASE("spans stay in order when the clocks are aligned again") {
  Recorded run{2000};
  wait(std::chrono::milliseconds{1010});
  const Picoseconds before = DriftingGpu::time_of(run.gpu.record({}));
  const Picoseconds late = run.error_of_span();
  CHECK(late > 1'000'000'000);  // 2 ms, because the drift is not known yet
  run.timeline.realign({});
  const Picoseconds after = DriftingGpu::time_of(run.gpu.record({}));
  CHECK(after + run.error_of_span() >= before + late);
  CHECK(run.error_of_span() <= run.timeline.uncertainty());
}
