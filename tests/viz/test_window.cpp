// Tests of the whole viewer on a virtual display.
#include <doctest/doctest.h>
#include <fmt/format.h>
#include <stb_image.h>
#include <sys/wait.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <random>
#include <sstream>

#include "tests/viz/sample_run.h"
#include "viz/data/feed/live_server.h"
#include "viz/data/layout/viewport.h"
#include "viz/data/window/compared_runs.h"
#include "viz/read/timeline/reader.h"
#include "viz/views/theme.h"
#include "viz/views/timeline_view.h"

using namespace lockstep;
using namespace lockstep::viz;
namespace fs = std::filesystem;

namespace {

/// A new folder, deleted at the end.
struct Folder {
  fs::path path =
      fs::temp_directory_path() / ("lockstep_window_" + std::to_string(std::random_device{}()));
  Folder() { fs::create_directory(path); }
  ~Folder() { fs::remove_all(path); }
};

struct Outcome {
  int code = -1;
  std::string output;
};

/// Runs the viewer, with a display if `display` is set.
Outcome view(const std::string& arguments, bool display, const fs::path& scratch) {
  const std::string log = (scratch / "log").string();
  const std::string run =
      display ? "xvfb-run -a -s '-screen 0 1920x1200x24' " : "env -u DISPLAY -u WAYLAND_DISPLAY ";
  // Under a sanitizer, ignores leaks and locking in the graphics driver.
  const int status =
      std::system(("ASAN_OPTIONS=detect_leaks=0 TSAN_OPTIONS=report_bugs=0 timeout 60 " + run +
                   LOCKSTEP_VIEW + " " + arguments + " >" + log + " 2>&1")
                      .c_str());
  std::ostringstream text;
  text << std::ifstream(log).rdbuf();
  return {WIFEXITED(status) ? WEXITSTATUS(status) : -1, text.str()};
}

bool has_xvfb() {
  static const bool found = std::system("command -v xvfb-run >/dev/null 2>&1") == 0;
  if (!found) MESSAGE("skipped: xvfb-run is not installed");
  return found;
}

struct Picture {
  int width = 0, height = 0;
  unsigned char* pixels = nullptr;
  explicit Picture(const fs::path& path) {
    int channels = 0;
    pixels = stbi_load(path.c_str(), &width, &height, &channels, 3);
  }
  ~Picture() { stbi_image_free(pixels); }
  Picture(const Picture&) = delete;
  Picture& operator=(const Picture&) = delete;

  ImU32 at(int x, int y) const {
    const unsigned char* p = pixels + 3 * (y * width + x);
    return IM_COL32(p[0], p[1], p[2], 255);
  }
};

/// Returns whether two colours differ by at most two units per channel, which allows for rounding
/// in blending.
bool alike(ImU32 a, ImU32 b) {
  for (int shift = 0; shift < 24; shift += 8) {
    if (std::abs(static_cast<int>((a >> shift) & 0xff) - static_cast<int>((b >> shift) & 0xff)) >
        2) {
      return false;
    }
  }
  return true;
}

ImU32 fill_of(const TimelineSpan& span) {
  const ImU32 colour = colour_of(span.category);
  return span.microbatch % 2 == 1 ? mixed(colour, IM_COL32_WHITE, 0.14f) : colour;
}

void write_run(const SampleRun& run, const fs::path& folder) {
  const auto traces = sample_traces(run);
  for (std::size_t rank = 0; rank < traces.size(); ++rank) {
    std::ofstream(folder / ("rank" + std::to_string(rank) + ".json")) << traces[rank];
  }
}

}  // namespace

TEST_CASE("flight-recorder dumps, which have no timeline, are drawn at once") {
  if (!has_xvfb()) return;
  const Folder folder;
  const fs::path png = folder.path / "stall.png";
  const std::string dumps = LOCKSTEP_SOURCE_DIR "/tests/golden/flight_recorder/nccl";
  const Outcome outcome = view(dumps + " --screenshot " + png.string(), true, folder.path);
  INFO(outcome.output);
  CHECK(outcome.code == 0);
  CHECK(Picture{png}.pixels);
}

TEST_CASE("the picture of a run has every action at its place in its colour") {
  if (!has_xvfb()) return;
  const Folder folder;
  const SampleRun run = sample_1f1b(4, 8, 3);
  write_run(run, folder.path);
  const fs::path png = folder.path / "run.png", stats = folder.path / "stats.json";
  const Outcome outcome = view(folder.path.string() + " --steps 1 --size 1600x900 --screenshot " +
                                   png.string() + " --stats " + stats.string(),
                               true, folder.path);
  INFO(outcome.output);
  REQUIRE(outcome.code == 0);
  const Picture picture{png};
  REQUIRE(picture.pixels);
  REQUIRE(picture.width == 1600);
  REQUIRE(picture.height == 900);

  Timeline timeline;
  read_traces({folder.path}, timeline);
  Viewport viewport;
  viewport.fit_steps(timeline, 1, 1);
  viewport.advance(timeline, 0, true);
  const double left = static_cast<double>(TimelineView::names_width);
  const double width = 1600 - left - static_cast<double>(TimelineView::right_edge);
  const auto x_of = [&](double time) {
    return left + (time - viewport.window().begin) / viewport.window().width() * width;
  };
  // Each rank runs its optimizer at a different time, so a column of pixels there crosses its lane.
  std::vector<int> lanes;  // the middle of each rank's lane
  for (int rank = 0; rank < 4; ++rank) {
    const SpanRow& first = timeline.find_rank(rank)->compute()->rows(Band::action).front();
    const auto optimizer = std::find_if(first.begin(), first.end(), [](const TimelineSpan& span) {
      return span.category == Category::optimizer && span.step == 1;
    });
    REQUIRE(optimizer != first.end());
    const auto column = static_cast<int>(x_of(static_cast<double>(optimizer->start) +
                                              0.3 * static_cast<double>(optimizer->duration())));
    int top = 0, bottom = 0;  // a message's arrow may hide a part
    for (int y = 100; y < 580; ++y) {
      if (!alike(picture.at(column, y), palette.optimizer)) continue;
      if (top == 0) top = y;
      bottom = y + 1;
    }
    CAPTURE(rank);
    CHECK(bottom - top > 12);
    CHECK(bottom - top < 60);
    lanes.push_back((top + bottom) / 2);
  }
  REQUIRE(std::ranges::is_sorted(lanes));

  int boxes = 0, waits = 0;
  for (int rank = 0; rank < 4; ++rank) {
    const int y = lanes[static_cast<std::size_t>(rank)];
    for (const TimelineSpan& span :
         timeline.find_rank(rank)->compute()->rows(Band::action).front()) {
      if (span.step != 1) continue;
      const double x0 = x_of(static_cast<double>(span.start));
      const double x1 = x_of(static_cast<double>(span.end));
      if (x1 - x0 < 8) continue;
      CAPTURE(rank);
      CAPTURE(timeline.name(span.name));
      // Looks beside the label and above the middle, where a message's arrow cannot hide
      // everything.
      int hits = 0, looked = 0;
      for (const double share : {0.15, 0.25, 0.75, 0.85}) {
        const auto x = static_cast<int>(x0 + share * (x1 - x0));
        const ImU32 seen = picture.at(x, y - 14);
        ++looked;
        if (span.category == Category::wait) {
          hits += !alike(seen, palette.forward) && !alike(seen, palette.backward);
        } else {
          hits += alike(seen, fill_of(span));
        }
      }
      CHECK(hits >= looked - 1);
      (span.category == Category::wait ? waits : boxes) += 1;
    }
  }
  CHECK(boxes == 4 * (16 + 1));
  CHECK(waits > 8);

  // Hovering over a box highlights it and its microbatch on the other ranks.
  const SpanRow& second = timeline.find_rank(1)->compute()->rows(Band::action).front();
  const auto under = std::find_if(second.begin(), second.end(), [](const TimelineSpan& span) {
    return span.step == 1 && span.category == Category::backward && span.microbatch == 6;
  });
  REQUIRE(under != second.end());
  const auto cursor = static_cast<int>(x_of(static_cast<double>(under->start + under->end) / 2));
  const Outcome lit =
      view(folder.path.string() + " --steps 1 --size 1600x900 --screenshot " + png.string() +
               " --hover " + std::to_string(cursor) + "," + std::to_string(lanes[1] + 10),
           true, folder.path);
  INFO(lit.output);
  REQUIRE(lit.code == 0);
  const Picture lit_picture{png};
  for (int rank = 0; rank < 4; ++rank) {
    for (const TimelineSpan& span :
         timeline.find_rank(rank)->compute()->rows(Band::action).front()) {
      if (span.step != 1 || span.category != Category::backward) continue;
      const auto edge = static_cast<int>(x_of(static_cast<double>(span.start)));
      int white = 0;
      for (int x = edge; x <= edge + 2; ++x) {
        const ImU32 seen = lit_picture.at(x, lanes[static_cast<std::size_t>(rank)] - 8);
        white += (seen & 0xff) > 180 && ((seen >> 16) & 0xff) > 180;
      }
      CAPTURE(rank);
      CAPTURE(span.microbatch);
      CHECK((white > 0) == (span.microbatch == 6));
    }
  }

  const auto json = nlohmann::json::parse(std::ifstream(stats));
  CHECK(json["spans"]["total"] == timeline.span_count());
  CHECK(json["malformed"] == 0);
  CHECK(json["screenshot"]["last_step"] == 2);
}

TEST_CASE("the picture of a comparison has every action of both steps at its place") {
  if (!has_xvfb()) return;
  const Folder folder;
  const fs::path a = folder.path / "a", b = folder.path / "b", c = folder.path / "c";
  SampleRun third = sample_1f1b(2, 2, 2);
  third.run = "third";
  for (const auto& [run, path] :
       {std::pair{sample_gpipe(4, 8, 3), a}, {sample_1f1b(4, 8, 3), b}, {third, c}}) {
    fs::create_directory(path);
    write_run(run, path);
  }
  const fs::path png = folder.path / "runs.png";
  const Outcome outcome = view(a.string() + " " + b.string() + " " + c.string() +
                                   " --steps 1,2 --size 1600x900 --screenshot " + png.string(),
                               true, folder.path);
  INFO(outcome.output);
  REQUIRE(outcome.code == 0);
  CHECK(outcome.output.find(c.string() + " is another run and is not shown") != std::string::npos);
  const Picture picture{png};
  REQUIRE(picture.pixels);
  REQUIRE(picture.width == 1600);

  Model model;
  auto other = std::make_unique<Model>();
  read_traces({a}, model.timeline);
  read_traces({b}, other->timeline);
  ComparedRuns runs{model, std::move(other)};
  runs.choose(Side::a, 1);
  runs.choose(Side::b, 2);
  runs.advance(0, true);
  constexpr int top = 130, between = 330, bottom = 560;  // of the two timelines
  const double left = static_cast<double>(TimelineView::names_width);
  const double width = 1600 - left - static_cast<double>(TimelineView::right_edge);
  int actions = 0;
  for (const Side side : both_sides) {
    const Timeline& timeline = runs.model(side).timeline;
    const TimeWindow& window = runs.model(side).viewport.window();
    const int step = runs.metrics(side).step;
    for (const auto& rank : timeline.ranks()) {
      for (const TimelineSpan& span : rank->compute()->rows(Band::action).front()) {
        if (span.step != step || !span.is_action()) continue;
        const double middle =
            static_cast<double>(span.start) + 0.2 * static_cast<double>(span.end - span.start);
        const auto x = static_cast<int>(left + (middle - window.begin) / window.width() * width);
        // Some lane of this run has the action's colour in this column.
        int longest = 0, height = 0;
        for (int y = side == Side::a ? top : between; y < (side == Side::a ? between : bottom);
             ++y) {
          height = alike(picture.at(x, y), fill_of(span)) ? height + 1 : 0;
          longest = std::max(longest, height);
        }
        CAPTURE(rank->rank);
        CAPTURE(timeline.name(span.name));
        CHECK(longest >= 8);
        ++actions;
      }
    }
  }
  CHECK(actions == 2 * 4 * 16);
}

TEST_CASE("a trace's picture is lighter by its idle time, bubbles narrower than a pixel included") {
  if (!has_xvfb()) return;
  // Rank 0 alternates between work and idle time every 100 us, several times per pixel; rank 1 only
  // works, and rank 2 is only idle. In the second round, the idle time consists of waits.
  for (const bool waits : {false, true}) {
    for (const int idle : {5, 30, 70}) {
      const Folder folder;
      std::ofstream out(folder.path / "trace.json");
      const auto span = [&](int rank, const char* category, int start, int duration) {
        out << fmt::format(
                   R"({{"ph":"X","name":"x","cat":"{}","pid":{},"tid":0,"ts":{},"dur":{},"args":{{}}}},)",
                   category, rank, start, duration)
            << "\n";
      };
      out << "[\n";
      constexpr int periods = 10'000;
      for (int i = 0; i < periods; ++i) {
        span(0, "forward", 100 * i, 100 - idle);
        if (waits) span(0, "wait", 100 * i + 100 - idle, idle);
      }
      span(1, "forward", 0, 100 * periods);
      if (waits) span(2, "wait", 0, 100 * periods);
      // Without waits, a lane exists if it has a span.
      if (!waits) span(2, "forward", 0, 0);
      out.close();
      const fs::path png = folder.path / "run.png";
      const Outcome outcome =
          view(folder.path.string() + " --size 1600x900 --screenshot " + png.string(), true,
               folder.path);
      INFO(outcome.output);
      REQUIRE(outcome.code == 0);
      const Picture picture{png};
      REQUIRE(picture.pixels);
      // The mean green of each lane in the middle of the run, over whole periods of the hatch.
      std::vector<double> means;
      int begin = -1;
      const auto is_gap = [&](int y) { return alike(picture.at(800, y), palette.background); };
      for (int y = 165; y < 600 && means.size() < 3; ++y) {
        if (begin < 0 && !is_gap(y)) begin = y;
        if (begin < 0 || !is_gap(y)) continue;
        double sum = 0;
        int count = 0;
        for (int row = begin + 4; row < begin + 20; ++row) {
          for (int x = 400; x < 1200; ++x, ++count) sum += (picture.at(x, row) >> 8) & 0xff;
        }
        means.push_back(sum / count);
        begin = -1;
      }
      REQUIRE(means.size() == 3);
      CAPTURE(waits);
      CAPTURE(means[0]);
      CAPTURE(means[1]);
      CAPTURE(means[2]);
      const double share = (means[1] - means[0]) / (means[1] - means[2]);
      CHECK(share == doctest::Approx(idle / 100.0).epsilon(0.02));
    }
  }
}

TEST_CASE("idle time has its parts' colours, and --show turns the critical path on") {
  if (!has_xvfb()) return;
  const Folder folder;
  write_run(sample_1f1b(4, 8, 3), folder.path);
  const fs::path png = folder.path / "run.png";
  const auto count = [&](const std::string& flags, ImU32 colour) {
    const Outcome outcome = view(
        folder.path.string() + " --steps 1 --size 1366x768 --screenshot " + png.string() + flags,
        true, folder.path);
    INFO(outcome.output);
    REQUIRE(outcome.code == 0);
    const Picture picture{png};
    REQUIRE(picture.pixels);
    int pixels = 0;
    for (int y = 172; y < 480; ++y)
      for (int x = static_cast<int>(TimelineView::names_width); x < 1354; ++x)
        pixels += alike(picture.at(x, y), colour);
    return pixels;
  };
  const auto fill = [](StepPart part) { return mixed(palette.lane, colour_of(part), 0.22f); };
  CHECK(count("", fill(StepPart::warm_up)) > 1000);
  CHECK(count("", fill(StepPart::cool_down)) > 1000);
  CHECK(count("", fill(StepPart::other)) < 300);  // blended edges may look alike
  CHECK(count("", palette.critical_path) == 0);
  CHECK(count(" --show critical-path", palette.critical_path) > 1000);
}

TEST_CASE("without a display the viewer suggests a remedy") {
  const Folder folder;
  write_run(sample_1f1b(2, 2, 1), folder.path);
  const Outcome outcome = view(folder.path.string(), false, folder.path);
  CHECK(outcome.code == 2);
  CHECK(outcome.output.find("no display") != std::string::npos);
  for (const char* remedy : {"xvfb", "--screenshot", "in the terminal", "ui.perfetto.dev"})
    CHECK(outcome.output.find(remedy) != std::string::npos);
  CHECK(std::count(outcome.output.begin(), outcome.output.end(), '\n') == 1);
}

TEST_CASE("an impossible request gives one line and exit code 2, before a window opens") {
  const Folder folder;
  const LiveServer other{{.host = "127.0.0.1", .port = 0}, {}, [] {}};
  const std::string port = std::to_string(other.endpoint().port);
  for (const std::string& arguments :
       {"--listen " + port, std::string{"--listen 0.0.0.0:0"}, std::string{"--listen nowhere"},
        std::string{"/no/such/trace"}, std::string{"--size 3"}, std::string{"--colour red"},
        folder.path.string()}) {
    const Outcome outcome = view(arguments, false, folder.path);
    CAPTURE(arguments);
    CAPTURE(outcome.output);
    CHECK(outcome.code == 2);
    CHECK(outcome.output.starts_with("lockstep_view: "));
    CHECK(std::count(outcome.output.begin(), outcome.output.end(), '\n') == 1);
  }
  const Outcome help = view("--help", false, folder.path);
  CHECK(help.code == 0);
  CHECK(help.output.find("--screenshot") != std::string::npos);
}
