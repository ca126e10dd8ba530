// Measures the cost of tracing: reading the clock, recording a span, and writing spans to a file.

#include <fmt/format.h>

#include <fstream>
#include <functional>
#include <thread>

#include "core/device/stream.h"
#include "core/trace/open_span.h"
#include "core/trace/writer.h"
#include "tests/bench/side_by_side.h"
#include "tests/support/fake_viewer.h"
#include "tests/support/temporary_folder.h"

using namespace lockstep;
using namespace lockstep::bench;

namespace {

constexpr int burst = 1000;

void put(benchmark::State& state, const std::vector<double>& nanoseconds, double at_most,
         const std::string& what) {
  state.counters["value"] = median(nanoseconds);
  state.counters["low"] = quantile(nanoseconds, 0.25);
  state.counters["high"] = quantile(nanoseconds, 0.75);
  if (at_most > 0) state.counters["at_most"] = at_most;
  state.SetLabel(what);
}

/// Returns each burst's time per operation, in nanoseconds. Bursts start one millisecond apart,
/// which gives a rate of one million operations per second, so the writer gets as much of a core as
/// in a real run.
std::vector<double> bursts(int rounds, const std::function<void()>& of_a_burst) {
  std::vector<double> nanoseconds;
  double next = seconds_now();
  for (int round = -20; round < rounds; ++round) {
    const double took = seconds_of(of_a_burst);
    if (round >= 0) nanoseconds.push_back(took * 1e9 / burst);
    next += burst * 1e-6;
    while (seconds_now() < next) benchmark::ClobberMemory();
  }
  return nanoseconds;
}

template <class Read>
void reading(benchmark::State& state, const std::string& what, Read read) {
  put(state,
      bursts(300,
             [&] {
               for (int i = 0; i < burst; ++i) benchmark::DoNotOptimize(read());
             }),
      0, what);
}

/// A traced rank that records pipeline actions while its file grows.
struct Traced {
  testing::TemporaryFolder folder;
  Clock clock = Clock::wall();
  Recorder trace;
  Stream compute{clock, trace, 0, DeviceKind::cpu};
  TraceWriter writer;
  Span action{.name = "action", .category = Category::forward, .stage = 1, .microbatch = 2};
  explicit Traced(const std::string& viewer = "") : writer(folder.path(), viewer, "") {
    trace.set_step(3);
    writer.add({}, trace);
  }
};

void span(benchmark::State& state) {
  Traced traced;
  put(state,
      bursts(1000,
             [&] {
               for (int i = 0; i < burst; ++i) {
                 const Picoseconds start = traced.clock.now();
                 traced.trace.span(0, traced.action, start, traced.clock.now());
               }
             }),
      45, "ns of a span, both readings of the clock included, while it is written");
}

void record_only(benchmark::State& state) {
  Traced traced;
  Picoseconds at = 0;
  put(state,
      bursts(1000,
             [&] {
               for (int i = 0; i < burst; ++i, ++at)
                 traced.trace.span(0, traced.action, at, at + 1);
             }),
      0, "ns of a span whose times are known (the modelled clock)");
}

void range(benchmark::State& state) {
  Traced traced;
  put(state,
      bursts(1000,
             [&] {
               for (int i = 0; i < burst; ++i) traced.compute.range(traced.action, [] {});
             }),
      0, "ns of a range of a stream: a span that is seen while it is open");
}

/// Measures the rate at which the writer formats and writes spans, in millions per second.
void writer(benchmark::State& state) {
  const int spans = 300'000;
  std::vector<double> per_second;
  double bytes = 0;
  for (int round = 0; round < 7; ++round) {
    Traced traced;
    traced.writer.finish();
    Recorder recorder;
    const int lane = recorder.add_lane("pp: send");
    for (int i = 0; i < spans; ++i) {
      recorder.span(i % 2 == 0 ? 0 : lane,
                    i % 2 == 0 ? traced.action
                               : Span{.name = "send",
                                      .category = Category::communication,
                                      .peer = 1,
                                      .bytes = 65536,
                                      .group = "pp",
                                      .group_size = 4},
                    i * 1'000'000LL, i * 1'000'000LL + 700'000);
    }
    TraceWriter late{traced.folder.path(), "", ""};
    per_second.push_back(spans / seconds_of([&] {
                           late.add({}, recorder);
                           late.finish();
                         }));
    bytes = static_cast<double>(std::filesystem::file_size(traced.folder.path() / "rank0.json"));
  }
  state.counters["value"] = median(per_second) / 1e6;
  state.counters["low"] = quantile(per_second, 0.25) / 1e6;
  state.counters["high"] = quantile(per_second, 0.75) / 1e6;
  state.counters["at_least"] = 1;
  state.counters["bytes_per_span"] = bytes / spans;
  state.SetLabel("million spans a second, formatted and in the file");
}

/// Records one million spans in one second, and measures how long the writer then takes to write
/// the remaining spans.
void keeps_up(benchmark::State& state) {
  std::vector<double> behind;
  for (int round = 0; round < 3; ++round) {
    Traced traced;
    bursts(1000, [&] {
      for (int i = 0; i < burst; ++i) traced.compute.range(traced.action, [] {});
    });
    behind.push_back(1e3 * seconds_of([&] { traced.writer.finish(); }));
  }
  put(state, behind, 100, "ms to write what is left after a second of a million spans");
}

/// Compares the speed of a rank whose viewer reads slowly with that rank's speed without a viewer.
/// At the end, the slow viewer must have received everything.
void slow_viewer(benchmark::State& state) {
  constexpr int spans = 100'000;
  bool complete = true;
  const auto run = [&](testing::FakeViewer* viewer) {
    Traced traced{viewer != nullptr ? viewer->address() : ""};
    double sum = 0;
    const double took = seconds_of([&] {
      for (int i = 0; i < spans; ++i)
        traced.compute.range(traced.action, [&] {
          for (int k = 0; k < 2'000; ++k) benchmark::DoNotOptimize(sum += k);
        });
    });
    if (viewer != nullptr) viewer->hurry();
    traced.writer.finish();
    std::ifstream file{traced.folder.path() / "rank0.json"};
    const std::string trace{std::istreambuf_iterator<char>{file}, {}};
    if (viewer != nullptr) complete = complete && viewer->gets(trace);
    return took;
  };
  const SideBySide sides = take_turns(
      9,
      [&] {
        testing::FakeViewer viewer;
        viewer.listen({.piece = 4096, .pause = std::chrono::milliseconds{10}});
        return run(&viewer);
      },
      [&] { return run(nullptr); });
  report(state, sides, 0.98, "speed of a rank with a viewer that reads slowly, over one without");
  if (!complete) state.SkipWithError("the viewer has not got everything");
}

const int registered = [] {
  add("trace/clock_of_the_system", [](benchmark::State& state) {
    reading(state, "ns of std::chrono::steady_clock::now()",
            [] { return std::chrono::steady_clock::now(); });
  });
  add("trace/span", span);
  add("trace/span_without_clock", record_only);
  add("trace/range", range);
  add("trace/writer", writer);
  add("trace/keeps_up", keeps_up);
  add("trace/slow_viewer", slow_viewer);
  return 0;
}();

}  // namespace
