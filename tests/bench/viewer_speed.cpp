// Measures the viewer's speed; viewer_speed.sh starts it.
//   viewer_speed navigate TRACES
//     pans and zooms through traces as a user would
//   viewer_speed send HOST:PORT RATE SECONDS RANKS DIR
//     sends spans of ranks to a viewer, as a run would
#include <GL/gl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <filesystem>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "core/time/clock.h"
#include "core/trace/recorder.h"
#include "core/trace/writer.h"
#include "viz/app/app.h"
#include "viz/views/imgui_shim.h"

using namespace lockstep;
using viz::FrameTimes;
using SteadyClock = std::chrono::steady_clock;

namespace {

using Key = decltype(viz::keys::w);

/// Simulated user input for some seconds: holds down one of the timeline's keys. Panning goes back
/// and forth, so that the window stays within the run.
struct Phase {
  const char* name;
  double seconds;
  Key key, back;
  bool selects = false;  ///< instead, drags across the whole window and waits for its statistics
};
// W and S change the window's width by a factor of 5 per second; A and D pan by 0.9 windows.
constexpr Phase phases[] = {{"pan, whole run", 3, viz::keys::d, viz::keys::a},
                            {"zoom in", 7, viz::keys::w, viz::keys::w},
                            {"pan, single spans", 3, viz::keys::a, viz::keys::d},
                            {"zoom out half-way", 3.5, viz::keys::s, viz::keys::s},
                            {"pan, many steps", 4, viz::keys::d, viz::keys::a},
                            {"zoom out to the whole run", 4, viz::keys::s, viz::keys::s},
                            {"statistics of all spans", 8, viz::keys::s, viz::keys::s, true}};
constexpr std::chrono::milliseconds turn{400};  // until the direction changes

void print_row(const std::string& name, const FrameTimes& times, std::size_t first,
               std::size_t last) {
  FrameTimes part;
  for (std::size_t i = first; i < last; ++i) part.add(times.frames()[i]);
  fmt::print("{:<28}{:>7}", name, part.count());
  for (const auto which :
       {&FrameTimes::Frame::wall, &FrameTimes::Frame::thread, &FrameTimes::Frame::process}) {
    const auto found = part.percentiles(which);
    fmt::print("{:>9.1f}{:>7.1f}{:>7.1f}", found.p50, found.p95, found.max);
  }
  fmt::print("\n");
}

int navigate(const std::filesystem::path& traces) {
  viz::ViewerOptions options;
  options.paths = {traces};
  options.width = 1280;
  options.height = 720;
  options.remembers = false;
  viz::App app{options};
  std::size_t phase = 0, warm = 0;
  std::vector<std::size_t> firsts;
  SteadyClock::time_point begun, until;
  std::string renderer;
  double seconds_to_count = 0;  // from the end of the drag
  app.rehearse([&](viz::Window& window) {
    if (renderer.empty()) {
      renderer = reinterpret_cast<const char*>(glGetString(GL_RENDERER));
      window.hold_cursor(700, 300);
    }
    // First, let the viewer glide to the whole run.
    viz::set_key(viz::keys::home, warm == 0);
    if (warm < 60) {
      ++warm;
      return true;
    }
    const auto now = SteadyClock::now();
    if (firsts.empty() || now >= until) {
      if (!firsts.empty()) ++phase;
      firsts.push_back(app.frame_times().count());
      if (phase == std::size(phases)) return false;
      begun = now;
      until = now + std::chrono::milliseconds{static_cast<int>(1000 * phases[phase].seconds)};
    }
    if (phases[phase].selects) {
      viz::set_key(viz::keys::s, false);
      viz::set_key(viz::keys::home, now - begun < std::chrono::milliseconds{50});
      const bool presses = now - begun > std::chrono::milliseconds{700};
      const bool moves = now - begun > std::chrono::milliseconds{800};
      const bool releases = now - begun > std::chrono::milliseconds{900};
      window.hold_cursor(moves ? 1260 : 240, 300);
      window.hold_button(presses && !releases);
      if (releases && seconds_to_count == 0 && app.model().view.range &&
          !app.model().view.counting())
        seconds_to_count = std::chrono::duration<double>(now - begun).count() - 0.9;
      return true;
    }
    for (const Key key : {viz::keys::a, viz::keys::d, viz::keys::s, viz::keys::w})
      viz::set_key(key, false);
    const bool back = (now - begun) / turn % 2 == 1;
    viz::set_key(back ? phases[phase].back : phases[phase].key, true);
    return true;
  });
  if (const int code = app.run(); code != 0) return code;
  const FrameTimes& times = app.frame_times();
  fmt::print("{} spans, {}x{}, {}\n", app.model().timeline.span_count(), options.width,
             options.height, renderer);
  fmt::print("{:<35}{:>23}{:>23}{:>23}\n", "milliseconds of a frame", "wall", "CPU of the thread",
             "CPU of the process");
  fmt::print("{:<28}{:>7}", "", "frames");
  for (int i = 0; i < 3; ++i) fmt::print("{:>9}{:>7}{:>7}", "median", "95 %", "max");
  fmt::print("\n");
  for (std::size_t i = 0; i + 1 < firsts.size(); ++i)
    print_row(phases[i].name, times, firsts[i], firsts[i + 1]);
  print_row("all", times, firsts.front(), firsts.back());
  fmt::print("the statistics of all spans were complete after {:.1f} s\n", seconds_to_count);
  return 0;
}

int send(const std::string& viewer, double rate, double seconds, int ranks,
         const std::filesystem::path& folder) {
  const Clock clock = Clock::wall();
  TraceWriter writer{folder, viewer, ""};
  std::vector<std::unique_ptr<Recorder>> recorders;
  std::vector<int> lanes;
  for (int rank = 0; rank < ranks; ++rank) {
    Recorder& recorder = *recorders.emplace_back(std::make_unique<Recorder>());
    recorder.set_clock(clock);
    lanes.push_back(recorder.add_lane("pp: send"));
    writer.add({.run = fmt::format("speed-{}", ::getpid()),
                .lesson = "09 1F1B",
                .rank = rank,
                .ranks = ranks,
                .mesh = fmt::format("{{\"pp\":{}}}", ranks),
                .clock_offset_ns = clock.start_nanoseconds()},
               recorder);
  }
  // Every millisecond, each rank records the spans of that millisecond: alternating forward and
  // backward actions, half of them with a message, and a step every 50 ms.
  constexpr Picoseconds tick = 1'000'000'000;
  const int per_tick = std::max(2, static_cast<int>(rate / 1000 / ranks));
  const auto ticks = static_cast<int>(seconds * 1000);
  std::int64_t count = 0;
  Picoseconds step_begin = clock.now();
  for (int i = 0; i < ticks; ++i) {
    const Picoseconds begin = step_begin + tick * i;
    while (clock.now() < begin + tick) std::this_thread::sleep_for(std::chrono::microseconds{100});
    const int step = i / 50;
    for (int rank = 0; rank < ranks; ++rank) {
      Recorder& recorder = *recorders[static_cast<std::size_t>(rank)];
      recorder.set_step(step);
      const Picoseconds each = tick / per_tick;
      for (int s = 0; s < per_tick; ++s) {
        const bool forward = s % 4 < 2;
        const int microbatch = s / 4;
        const Picoseconds start = begin + each * (s - s % 2);
        if (s % 2 == 0) {
          recorder.span(0,
                        {.name = "PP",
                         .category = forward ? Category::forward : Category::backward,
                         .stage = rank,
                         .microbatch = microbatch},
                        start, start + each * 3 / 2);
        } else {
          recorder.span(lanes[static_cast<std::size_t>(rank)],
                        {.name = "send",
                         .category = Category::communication,
                         .microbatch = microbatch,
                         .peer = (rank + 1) % ranks,
                         .bytes = 4096},
                        start + each, start + 2 * each);
        }
      }
      count += per_tick;
      if (i % 50 == 49) {
        recorder.span(0, {.name = "step", .category = Category::step}, begin - 49 * tick,
                      begin + tick);
        ++count;
      }
    }
  }
  const double took = static_cast<double>(clock.now() - step_begin) * 1e-12;
  writer.finish(60);
  fmt::print("sent {} spans in {:.2f} s: {:.0f} per second\n", count, took,
             static_cast<double>(count) / took);
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  const std::vector<std::string> arguments(argv + 1, argv + argc);
  try {
    if (arguments.size() == 2 && arguments[0] == "navigate") return navigate(arguments[1]);
    if (arguments.size() == 6 && arguments[0] == "send")
      return send(arguments[1], std::stod(arguments[2]), std::stod(arguments[3]),
                  std::stoi(arguments[4]), arguments[5]);
  } catch (const std::exception& error) {
    fmt::print(stderr, "viewer_speed: {}\n", error.what());
    return 1;
  }
  fmt::print(stderr,
             "usage: viewer_speed navigate TRACES | send HOST:PORT RATE SECONDS RANKS DIR\n");
  return 2;
}
