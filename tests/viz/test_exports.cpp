#include <doctest/doctest.h>
#include <fmt/format.h>

#include <cstdlib>
#include <fstream>
#include <regex>
#include <set>
#include <sstream>

#include "core/base/error.h"
#include "tests/support/temporary_folder.h"
#include "tests/viz/interactive.h"
#include "tests/viz/worked_step.h"
#include "viz/app/export.h"
#include "viz/data/selection/exports.h"
#include "viz/views/svg.h"
#include "viz/views/timeline_svg.h"

using namespace lockstep;
using namespace lockstep::viz;

namespace {

std::vector<std::vector<std::string>> cells_of(const std::string& csv) {
  std::vector<std::vector<std::string>> rows;
  std::istringstream lines{csv};
  for (std::string line; std::getline(lines, line);) {
    std::istringstream cells{line};
    rows.emplace_back();
    for (std::string cell; std::getline(cells, cell, ',');) rows.back().push_back(cell);
  }
  return rows;
}

/// Returns whether each tag is closed, in the right order.
bool tags_match(const std::string& xml) {
  std::vector<std::string> open;
  const std::regex tag{"<(/?)([a-z]+)[^>]*?(/?)>"};
  for (std::sregex_iterator at{xml.begin(), xml.end(), tag}, end; at != end; ++at) {
    if ((*at)[3].length() > 0) continue;
    if ((*at)[1].length() == 0) {
      open.push_back((*at)[2]);
    } else {
      if (open.empty() || open.back() != (*at)[2]) return false;
      open.pop_back();
    }
  }
  return open.empty();
}

/// Converts a time to the text that the CSV contains, and back.
std::string exact(Picoseconds time) {
  return fmt::format("{}.{:012}", time / 1'000'000'000'000, time % 1'000'000'000'000);
}
Picoseconds picoseconds(std::string seconds) {
  seconds.erase(seconds.find('.'), 1);
  return std::stoll(seconds);
}

}  // namespace

TEST_CASE("the CSV has the account of each visible step by rank, to the picosecond") {
  Timeline timeline;
  read_sample(sample_traces(sample_1f1b(3, 4, 4)), timeline);
  const StepWindow& first = timeline.steps()[1];
  const StepWindow& last = timeline.steps()[2];
  // The ranks' steps are staggered, so steps overlap.
  const TimeWindow window{static_cast<double>(timeline.steps()[0].end),
                          static_cast<double>(timeline.steps()[3].start)};
  const auto rows = cells_of(statistics_csv(timeline, window, {}));
  CHECK(rows[0] == std::vector<std::string>{"step", "step_seconds", "rank", "compute", "optimizer",
                                            "pp_transfer", "pp_latency", "pp_late_peer",
                                            "pp_communication", "pp_hidden", "cool_down", "warm_up",
                                            "waiting", "other", "ended", "bytes_sent"});
  std::size_t row = 1;
  for (const StepWindow* step : {&first, &last}) {
    const StepAccount account = step_account(timeline, step->step);
    REQUIRE(account.axes == std::vector<std::string>{"pp"});
    for (const RankAccount& rank : account.ranks) {
      REQUIRE(row < rows.size());
      const auto& cells = rows[row++];
      const StepSums& sums = rank.sums;
      const std::vector<std::string> expected{
          std::to_string(account.step),
          exact(account.length),
          std::to_string(rank.rank),
          exact(sums.compute),
          exact(sums.optimizer),
          exact(sums.axes[0].transfer),
          exact(sums.axes[0].latency),
          exact(sums.axes[0].late_peer),
          exact(rank.overlaps[0].communication),
          exact(rank.overlaps[0].hidden),
          exact(sums.cool_down),
          exact(sums.warm_up),
          exact(sums.waiting),
          exact(sums.other),
          exact(sums.ended),
          std::to_string(bytes_sent(timeline, *timeline.find_rank(rank.rank), account.step))};
      CHECK(cells == expected);
      // The parts add up when a script adds them.
      Picoseconds sum = 0;
      for (std::size_t i = 3; i < 15; ++i)
        if (i != 8 && i != 9) sum += picoseconds(cells[i]);
      CHECK(sum == picoseconds(cells[1]));
    }
  }
  CHECK(row == rows.size());
}

TEST_CASE("the CSV of a selection divides it by rank, and steps may have different axes") {
  Timeline timeline;
  add_worked_step(timeline, 0, 0);
  const auto rows = cells_of(statistics_csv(timeline, {0, 1}, Interval{8 * us, 60 * us + 1}));
  REQUIRE(rows.size() == 3);
  CHECK(rows[0] == std::vector<std::string>{
                       "selection_start", "selection_seconds", "rank", "compute", "optimizer",
                       "dp_transfer", "dp_latency", "dp_late_peer", "tp_transfer", "tp_latency",
                       "tp_late_peer", "cool_down", "warm_up", "waiting", "other", "in_no_step",
                       "communication", "hidden", "bytes_sent"});
  CHECK(rows[1][0] == "0.000008000000");
  CHECK(rows[1][1] == "0.000052000001");
  CHECK(rows[1][3] == "0.000018000000");
  CHECK(rows[1][15] == "0.000006000001");
  Picoseconds sum = 0;
  for (std::size_t i = 3; i < 16; ++i) sum += picoseconds(rows[1][i]);
  CHECK(sum == 52 * us + 1);
  // A second step, without tp but with a group whose name needs quotes.
  for (const Category category : {Category::forward, Category::wait, Category::step}) {
    TimelineSpan span{
        .start = 70 * us, .end = 75 * us, .step = 1, .group = timeline.intern("a,\"b\"")};
    span.category = category;
    if (category == Category::step) span.group = 0;
    for (int rank = 0; rank < 2; ++rank) timeline.add(rank, 0, span);
  }
  timeline.settle();
  const std::string csv = statistics_csv(timeline, {0, 100.0 * us}, {});
  CHECK(csv.find("\"a,\"\"b\"\"_transfer\"") != std::string::npos);
  CHECK(csv.find("\n1,0.000005000000,1,") != std::string::npos);
}

TEST_CASE("an exported file replaces no other") {
  const testing::TemporaryFolder folder;
  const auto first = free_name(folder.path(), "09 1F1B/../x", "svg");
  CHECK(first.parent_path() == folder.path());
  CHECK(first.filename() == "09-1F1B-x-1.svg");
  write_text(first, "a");
  const auto second = free_name(folder.path(), "09 1F1B/../x", "svg");
  CHECK(second.filename() == "09-1F1B-x-2.svg");
  CHECK(free_name(folder.path(), "", "csv").filename() == "lockstep-1.csv");
  CHECK(testing::read_file(first) == "a");
  write_text(folder.path() / "new" / "folder" / "b.csv", "b");
  CHECK(testing::read_file(folder.path() / "new" / "folder" / "b.csv") == "b");
  CHECK_THROWS_AS(write_text("/proc/none/x.csv", "b"), RunError);
}

TEST_CASE("the SVG has each visible action at its place, and every rank") {
  Model model;
  read_sample(sample_traces(sample_1f1b(3, 4, 3)), model.timeline);
  model.viewport.fit_steps(model.timeline, 1, 1);
  model.viewport.advance(model.timeline, 0, true);
  const StripLayout layout = whole_layout(model.timeline);
  const std::string svg = timeline_svg(model, layout, 1600);
  CHECK(svg.starts_with("<svg"));
  CHECK(tags_match(svg));
  for (const auto& rank : model.timeline.ranks()) {
    CHECK(svg.find(fmt::format(">rank {}<", rank->rank)) != std::string::npos);
    for (const TimelineSpan& span : rank->compute()->rows(Band::action).front()) {
      if (span.step != 1 || span.category == Category::wait) continue;
      const std::string title = fmt::format("<title>{}, {}", model.timeline.name(span.name),
                                            duration_words(static_cast<double>(span.duration())));
      CHECK(svg.find(title) != std::string::npos);
    }
  }
  CHECK(svg.find(">step 1<") != std::string::npos);
  // Idle time is hatched by its cause, messages have arrowheads, and the legend explains both.
  const auto count = [&](const std::string& of) {
    std::size_t found = 0;
    for (std::size_t at = svg.find(of); at != std::string::npos; at = svg.find(of, at + 1)) ++found;
    return found;
  };
  std::set<std::string> angles;
  for (std::size_t at = svg.find("rotate("); at != std::string::npos;
       at = svg.find("rotate(", at + 1))
    angles.insert(svg.substr(at, svg.find(')', at) - at));
  CHECK(angles.size() >= 5);
  for (const StepPart part : {StepPart::warm_up, StepPart::waiting, StepPart::cool_down}) {
    const std::string fill =
        fmt::format("fill=\"{}\" fill-opacity=\"0.500\"", hex(colour_of(part)));
    CHECK(count(fill) == 1);  // the lines of one pattern
  }
  CHECK(count("<circle") == count("<path"));
  CHECK(count("<path") > 4);
  for (const char* words : {"forward", "backward", "exposed wait:", "pp", "bubble:", "warm-up",
                            "waiting", "cool-down", "modelled time of cluster classroom"})
    CHECK(count(fmt::format(">{}<", words)) == 1);
  // A different window gives a different picture.
  model.viewport.fit_steps(model.timeline, 0, 2);
  model.viewport.advance(model.timeline, 0, true);
  CHECK(timeline_svg(model, layout, 1600) != svg);
}

TEST_CASE("names with markup do not become markup in the SVG") {
  Model model;
  Timeline& timeline = model.timeline;
  TimelineSpan span{.start = 0, .end = 1000, .name = timeline.intern("<b>&\"x\"")};
  span.category = Category::forward;
  timeline.add(0, 0, span);
  timeline.settle();
  model.viewport.fit(timeline);
  model.viewport.advance(timeline, 0, true);
  const std::string svg = timeline_svg(model, whole_layout(timeline), 800);
  CHECK(svg.find("&lt;b&gt;&amp;&quot;x&quot;") != std::string::npos);
  CHECK(tags_match(svg));
}

TEST_CASE("E shows the exports; a click asks for one; B changes the theme") {
  Interactive viewer{sample_1f1b(2, 4, 3)};
  ViewState& view = viewer.model.view;
  viewer.model.source.export_folder = "runs/exports";
  viewer.press(keys::e);
  REQUIRE(view.exports);
  // The three buttons, from left to right, somewhere in the middle of the window.
  std::vector<Export> wanted;
  for (float x = 600; x < 1000; x += 10) {
    viewer.click(x, 440);
    if (view.wanted != Export::nothing && (wanted.empty() || wanted.back() != view.wanted))
      wanted.push_back(view.wanted);
    view.wanted = Export::nothing;
  }
  CHECK(wanted == std::vector<Export>{Export::png, Export::svg, Export::csv});
  CHECK(viewer.model.selected.kind == Finding::Kind::nothing);  // the timeline received no clicks
  viewer.press(keys::escape);
  CHECK_FALSE(view.exports);
  viewer.press(keys::b);
  CHECK(view.theme == Theme::light);
  viewer.press(keys::b);
  CHECK(view.theme == Theme::dark);
}

TEST_CASE("a viewer that waits for a run offers the recent traces") {
  struct Waiting : Headless {
    Model model;
    Screen screen;
    void click(float x, float y) {
      for (const bool down : {false, true, false}) {
        set_button(0, down);
        draw(screen, model, x, y);
      }
      draw(screen, model, x, y);
    }
  } viewer;
  viewer.model.source = {.live = true, .name = "127.0.0.1:7077", .recent = {"/runs/a", "/runs/b"}};
  for (int i = 0; i < 3; ++i) viewer.click(0, 0);
  std::vector<std::string> opened;
  for (float y = 300; y < 700; y += 8) {
    viewer.click(800, y);
    std::vector<std::string>& open = viewer.model.view.open.paths;
    if (!open.empty() && (opened.empty() || opened.back() != open.front()))
      opened.push_back(open.front());
    open.clear();
  }
  CHECK(opened == viewer.model.source.recent);
}

TEST_CASE("an export writes a new file below the given folder, or says why it cannot") {
  const testing::TemporaryFolder folder;
  Interactive viewer{sample_1f1b(2, 4, 3)};
  ViewerOptions options;
  options.export_folder = folder.path() / "exports";
  CHECK_FALSE(std::filesystem::exists(options.export_folder));
  std::filesystem::path picture;
  const auto take = [&](Export what) {
    return export_view(what, options, viewer.model, viewer.screen.lanes(),
                       [&](const std::filesystem::path& file) { picture = file; });
  };
  for (const Export what : {Export::svg, Export::csv}) {
    const std::string said = take(what);
    REQUIRE(said.starts_with("wrote "));
    CHECK(std::filesystem::file_size(said.substr(6)) > 100);
    CHECK(take(what) != said);
  }
  take(Export::png);
  CHECK(picture.parent_path() == options.export_folder);
  CHECK(picture.extension() == ".png");
  options.export_folder = "/proc/none";
  CHECK(take(Export::csv).find("can't write") != std::string::npos);
}

TEST_CASE("--export needs no display") {
  const testing::TemporaryFolder folder;
  const auto traces = sample_traces(sample_1f1b(2, 4, 3));
  for (std::size_t rank = 0; rank < traces.size(); ++rank)
    std::ofstream(folder.path() / fmt::format("rank{}.json", rank)) << traces[rank];
  const auto run = [&](const std::string& arguments) {
    const std::string command =
        fmt::format("cd {0} && env -u DISPLAY -u WAYLAND_DISPLAY timeout 60 {1} {2} >log 2>&1",
                    folder.path().string(), LOCKSTEP_VIEW, arguments);
    return std::system(command.c_str());
  };
  CHECK(run(". --steps 1 --export a.svg --export b/c.csv --theme light") == 0);
  CHECK(tags_match(testing::read_file(folder.path() / "a.svg")));
  CHECK(cells_of(testing::read_file(folder.path() / "b" / "c.csv")).size() > 2);
  CHECK(run(". --export a.txt") != 0);
  CHECK(testing::read_file(folder.path() / "log").find("ends in .svg, .csv, .zip or") !=
        std::string::npos);
  CHECK(run("--export a.svg") != 0);
  CHECK(testing::read_file(folder.path() / "log").find("needs traces") != std::string::npos);
}
