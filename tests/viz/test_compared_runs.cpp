// Two runs side by side: their shared state, and the keys and buttons of the comparison.
#include <doctest/doctest.h>

#include "tests/support/temporary_folder.h"
#include "tests/viz/interactive.h"
#include "viz/app/comparison_screen.h"
#include "viz/app/export.h"
#include "viz/data/window/compared_runs.h"
#include "viz/views/legend.h"

using namespace lockstep;
using namespace lockstep::viz;

namespace {

std::unique_ptr<Model> model_of(const SampleRun& run) {
  auto model = std::make_unique<Model>();
  read_sample(sample_traces(run), model->timeline);
  return model;
}

/// The screen of a comparison: GPipe above 1F1B.
class Comparing : public Interactive {
 public:
  ComparedRuns runs;
  ComparisonScreen compared_screen;

  explicit Comparing(const SampleRun& a = sample_gpipe(4, 8, 4),
                     const SampleRun& b = sample_1f1b(4, 8, 4))
      : Interactive(a), runs(model, model_of(b)) {
    frame();
    frame();
  }
  void frame() override { draw(compared_screen, runs, x_, y_); }
  /// A y in the lanes of A and of B.
  static constexpr float in_a = 220, in_b = 430;
};

/// Returns whether both windows begin equally long before their compared steps, and are equally
/// wide.
bool aligned(const ComparedRuns& runs) {
  const auto before = [&](Side side) {
    return static_cast<double>(runs.origin(side)) - runs.model(side).viewport.window().begin;
  };
  const auto width = [&](Side side) { return runs.model(side).viewport.window().width(); };
  return std::abs(before(Side::a) - before(Side::b)) < 1 &&
         std::abs(width(Side::a) - width(Side::b)) < 1;
}

}  // namespace

TEST_CASE("both runs start at the same x and share the zoom") {
  auto a = model_of(sample_gpipe(4, 8, 4));
  ComparedRuns runs{*a, model_of(sample_1f1b(4, 8, 6))};
  CHECK(runs.step(Side::a) == 3);
  CHECK(runs.step(Side::b) == 5);
  CHECK(runs.origin(Side::a) != runs.origin(Side::b));
  CHECK(aligned(runs));
  // Both steps are visible from start to end.
  for (const Side side : both_sides) {
    const TimeWindow& window = runs.model(side).viewport.window();
    CHECK(window.begin < static_cast<double>(runs.metrics(side).window.start));
    CHECK(window.end > static_cast<double>(runs.metrics(side).window.end));
  }
  runs.lead(Side::b);
  Model& b = runs.leader();
  b.viewport.zoom(0.25, static_cast<double>(runs.origin(Side::b)));
  b.playback.toggle(b.timeline, b.viewport);
  b.view.critical_path = true;
  b.view.set_query("F3", b.timeline);
  runs.advance(0.01);
  CHECK(aligned(runs));
  CHECK(a->viewport.window().width() < 4e10);
  CHECK(a->playback.playing());
  CHECK(a->playback.cursor() - static_cast<double>(runs.origin(Side::a)) ==
        doctest::Approx(b.playback.cursor() - static_cast<double>(runs.origin(Side::b))));
  CHECK(a->view.critical_path);
  CHECK(a->view.found == 4 * 4);

  runs.choose(Side::a, 1);
  CHECK(runs.step(Side::a) == 1);
  CHECK(runs.metrics(Side::a).step == 1);
  runs.choose(Side::b, 99);
  CHECK(runs.step(Side::b) == 5);
  runs.go_by_steps(-1);
  CHECK(runs.metrics(Side::a).step == 0);
  CHECK(runs.metrics(Side::b).step == 4);
  runs.go_by_steps(-1);
  CHECK(runs.metrics(Side::a).step == 0);
  CHECK(runs.metrics(Side::b).step == 3);
  runs.advance(0, true);
  CHECK(aligned(runs));
}

TEST_CASE("a run without steps can be compared") {
  Model empty;
  TimelineSpan span{.start = 0, .end = 5};
  empty.timeline.add(0, 0, span);
  empty.timeline.settle();
  ComparedRuns runs{empty, model_of(sample_1f1b(4, 8, 2))};
  CHECK(runs.metrics(Side::a).step == -1);
  CHECK(runs.sentences().empty());
  runs.go_by_steps(1);
  runs.choose(Side::a, 3);
  CHECK(runs.metrics(Side::b).step == 1);
}

TEST_CASE("V and X choose the layout, as do their buttons") {
  Comparing viewer;
  ComparedRuns& runs = viewer.runs;
  CHECK_FALSE(runs.alternates());
  CHECK(runs.shows(Side::a));
  CHECK(runs.shows(Side::b));
  viewer.press(keys::x);
  CHECK(runs.alternates());
  CHECK_FALSE(runs.shows(Side::a));
  CHECK(runs.leads() == Side::b);
  viewer.press(keys::x);
  CHECK(runs.shows(Side::a));
  CHECK_FALSE(runs.shows(Side::b));
  CHECK(runs.leads() == Side::a);
  viewer.press(keys::v);
  CHECK_FALSE(runs.alternates());
  viewer.click(1540, 25);  // X, at the right end
  CHECK(runs.alternates());
  CHECK(runs.shows(Side::b));
  viewer.click(1400, 25);  // V
  CHECK_FALSE(runs.alternates());
}

TEST_CASE("a comparison exports the timelines and statistics of both runs, and one picture") {
  const testing::TemporaryFolder folder;
  Comparing viewer;
  ViewerOptions options;
  options.export_folder = folder.path();
  std::vector<std::filesystem::path> pictures;
  const auto take = [&](Export what) {
    return export_comparison(what, options, viewer.runs, viewer.compared_screen,
                             [&](const std::filesystem::path& file) { pictures.push_back(file); });
  };
  const auto files = [&] {
    std::vector<std::filesystem::path> all;
    for (const auto& each : std::filesystem::directory_iterator{folder.path()})
      all.push_back(each.path());
    return all;
  };
  for (const Export what : {Export::csv, Export::svg}) {
    const std::string said = take(what);
    CHECK(said.find("; wrote ") != std::string::npos);
  }
  REQUIRE(files().size() == 4);
  std::vector<std::string> texts;
  for (const auto& file : files()) texts.push_back(testing::read_file(file));
  std::ranges::sort(texts);
  CHECK(std::ranges::adjacent_find(texts) == texts.end());  // each run has files of its own
  take(Export::png);
  CHECK(pictures.size() == 1);
}

TEST_CASE("theme, exports and the list of keys belong to both runs") {
  Comparing viewer;
  ViewState &a = viewer.model.view, &b = viewer.runs.model(Side::b).view;
  viewer.move(800, Comparing::in_b);  // B leads
  viewer.press(keys::b);
  viewer.frame();
  CHECK(viewer.runs.leads() == Side::b);
  CHECK(a.theme == Theme::light);
  CHECK(b.theme == Theme::light);
  viewer.move(800, Comparing::in_a);
  viewer.press(keys::e);
  viewer.frame();
  CHECK(a.exports);
  CHECK(b.exports);
  viewer.press(keys::escape);
  viewer.frame();
  CHECK_FALSE(a.exports);
  CHECK_FALSE(b.exports);
  viewer.type("?");
  viewer.frame();
  CHECK(b.help);
}

TEST_CASE("page keys go to other steps of both runs, with Shift of the one under the cursor") {
  Comparing viewer;
  ComparedRuns& runs = viewer.runs;
  const auto steps = [&] { return std::pair{runs.step(Side::a), runs.step(Side::b)}; };
  using Steps = std::pair<std::size_t, std::size_t>;
  CHECK(steps() == Steps{3, 3});
  viewer.press(keys::page_up);
  CHECK(steps() == Steps{2, 2});
  viewer.move(700, Comparing::in_b);
  set_modifiers(false, true);
  viewer.press(keys::page_up);
  set_modifiers(false, false);
  CHECK(steps() == Steps{2, 1});
  CHECK(aligned(runs));
  viewer.move(700, Comparing::in_a);
  viewer.press(keys::page_down);
  CHECK(steps() == Steps{3, 2});
  CHECK(aligned(runs));
}

TEST_CASE("the buttons of a run's head choose its step") {
  Comparing viewer;
  // The first "<" to the right of the run's name, below the toolbar.
  const auto steps_of = [&](Side side) { return viewer.runs.step(side); };
  for (float x = 60; x < 200 && steps_of(Side::a) == 3; x += 6) viewer.click(x, 50 + 34 + 15);
  CHECK(steps_of(Side::a) == 2);
  CHECK(steps_of(Side::b) == 3);
}

TEST_CASE("a click on a step compares this step") {
  Comparing viewer;
  const auto step_of = [&](Side side) { return viewer.runs.metrics(side).step; };
  viewer.move(900, Comparing::in_a);
  viewer.press(keys::home);
  const StepWindow& step = viewer.model.timeline.steps()[1];
  viewer.click(viewer.x_of((step.start + step.end) / 2), 50 + 34 + 26 + 24 + 9);
  CHECK(step_of(Side::a) == 1);
  CHECK(step_of(Side::b) == 3);
  CHECK(aligned(viewer.runs));
  viewer.runs.choose_at(Side::b, -1e15);  // before the run: no step
  CHECK(step_of(Side::b) == 3);
}

TEST_CASE("zooming, collapsing and scrolling in one run does the same in the other") {
  Comparing viewer;
  viewer.move(900, Comparing::in_b);
  CHECK(viewer.runs.leads() == Side::b);
  const double before = viewer.model.viewport.window().width();
  viewer.wheel(2, true);
  CHECK(viewer.model.viewport.window().width() < 0.9 * before);
  CHECK(aligned(viewer.runs));
  viewer.press(keys::p);
  CHECK(viewer.runs.model(Side::a).view.critical_path);
  CHECK(viewer.runs.model(Side::b).view.critical_path);
  viewer.press(keys::p);
  CHECK_FALSE(viewer.runs.model(Side::a).view.critical_path);

  const auto hidden = [&](Side side) { return viewer.compared_screen.lanes(side).hidden().size(); };
  for (float y = Comparing::in_b; viewer.runs.model(Side::b).hovered.rank == nullptr; y += 4)
    viewer.move(900, y);
  viewer.press(keys::h);
  viewer.frame();
  CHECK(hidden(Side::b) == 1);
  CHECK(hidden(Side::a) == 1);
  viewer.move(900, Comparing::in_a);
  CHECK(viewer.runs.leads() == Side::a);
  CHECK(aligned(viewer.runs));
  viewer.press(keys::home);
  CHECK(aligned(viewer.runs));
}

TEST_CASE("a selected range and marks are at the same place in both runs") {
  Comparing viewer;
  ComparedRuns& runs = viewer.runs;
  Model &a = runs.model(Side::a), &b = runs.model(Side::b);
  // Different steps, so that the same place is a different time.
  runs.go_by_steps(Side::b, -2);
  viewer.frame();
  CHECK(runs.origin(Side::a) != runs.origin(Side::b));
  viewer.drag(400, Comparing::in_b, 900, Comparing::in_b);
  REQUIRE(b.view.range);
  REQUIRE(a.view.range);
  const Interval in_a = a.view.range->range, in_b = b.view.range->range;
  CHECK(in_a.start - runs.origin(Side::a) == in_b.start - runs.origin(Side::b));
  CHECK(in_a.end - in_a.start == in_b.end - in_b.start);
  REQUIRE(a.view.range->ranks.size() == 4);
  CHECK(a.view.range->ranks[3].sums == range_statistics(a.timeline, in_a).ranks[3].sums);
  CHECK(b.view.range->ranks[3].sums == range_statistics(b.timeline, in_b).ranks[3].sums);
  viewer.press(keys::m);
  viewer.frame();
  REQUIRE(a.view.marks.size() == 1);
  CHECK(a.view.marks[0] == in_a);
  viewer.move(900, Comparing::in_a);
  viewer.press(keys::escape);
  viewer.frame();
  CHECK_FALSE(a.view.range);
  CHECK_FALSE(b.view.range);
  CHECK(b.view.marks.size() == 1);

  // A span that is selected in B stays selected while the cursor is in A, until Escape.
  for (float y = Comparing::in_b; b.hovered.kind != Finding::Kind::span; y += 4)
    viewer.move(500, y);
  const float y = ImGui::GetIO().MousePos.y;
  viewer.click(500, y + 2);
  CHECK(b.selected.kind == Finding::Kind::span);
  viewer.move(500, Comparing::in_a);
  CHECK(b.selected.kind == Finding::Kind::span);
  viewer.press(keys::escape);
  CHECK(b.selected.kind == Finding::Kind::nothing);
}

TEST_CASE("times count from the start of the compared step") {
  Comparing viewer;
  const Model& b = viewer.runs.model(Side::b);
  CHECK(b.origin == viewer.runs.metrics(Side::b).window.start);
  const Lane& lane = *b.timeline.find_rank(0)->compute();
  const Finding first =
      find_at(*b.timeline.find_rank(0), lane, Band::action, static_cast<double>(b.origin) + 1e8, 1);
  CHECK(finding_words(b.timeline, first, b.origin)[2] == "0 µs to 1.00 ms");
}

TEST_CASE("the cursor finds spans in both timelines, but only in the one below it") {
  Comparing viewer;
  const auto found = [&](Side side) { return viewer.runs.model(side).hovered.kind; };
  int in_a = 0, in_b = 0;
  for (float y = 120; y < 560; y += 10) {
    viewer.move(500, y);
    in_a += found(Side::a) == Finding::Kind::span;
    in_b += found(Side::b) == Finding::Kind::span;
    CHECK((found(Side::a) == Finding::Kind::nothing || found(Side::b) == Finding::Kind::nothing));
  }
  CHECK(in_a > 2);
  CHECK(in_b > 2);
}

TEST_CASE("lanes are marked where ranks differ") {
  Comparing viewer;
  const ComparedTimeline a = ComparisonView::timeline_of(viewer.runs, Side::a);
  const ComparedTimeline b = ComparisonView::timeline_of(viewer.runs, Side::b);
  REQUIRE(a.notes.size() == 4);
  // Rank 3 keeps one microbatch in flight instead of eight.
  CHECK(a.notes.at(3).marked);
  CHECK(a.notes.at(3).words.starts_with("memory "));
  CHECK(b.notes.at(3).words.starts_with("memory -"));
  CHECK(a.step == viewer.runs.metrics(Side::a).window);
  CHECK(a.other_end - a.step.start == viewer.runs.metrics(Side::b).time());
  CHECK(a.other_words == "B ends here");

  const auto gpipe = model_of(sample_gpipe(4, 8, 4));
  const ComparedRuns equal{*gpipe, model_of(sample_gpipe(4, 8, 4))};
  const ComparedTimeline one = ComparisonView::timeline_of(equal, Side::b);
  CHECK_FALSE(one.notes.at(0).marked);
  CHECK(one.notes.at(0).words == "same");
  CHECK(one.other_words == "A ends here too");
  CHECK(equal.warning().empty());
}

TEST_CASE("the legend explains the bubbles of both runs, whichever the user works with") {
  const auto names_bubble = [](const Comparing& viewer) {
    for (const LegendEntry& entry :
         legend_of(viewer.runs.model(Side::a), {}, &viewer.runs.model(Side::b)))
      if (entry.heading == "bubble:") return true;
    return false;
  };
  Comparing viewer;
  for (const Side side : both_sides) CHECK(viewer.runs.model(side).contents.pipeline);
  CHECK(names_bubble(viewer));
  viewer.move(500, Comparing::in_b);
  CHECK(names_bubble(viewer));
  viewer.press(keys::x);  // B alone
  REQUIRE_FALSE(viewer.runs.shows(Side::a));
  CHECK(viewer.runs.model(Side::a).contents.pipeline);
  CHECK(viewer.runs.model(Side::b).contents.pipeline);
  CHECK(names_bubble(viewer));
}

TEST_CASE("if the clocks differ, one sentence warns, and no time is compared") {
  SampleRun wall = sample_1f1b(4, 8, 4);
  wall.clock = "wall";
  wall.cluster = "";
  Comparing viewer{sample_gpipe(4, 8, 4), wall};
  CHECK(viewer.runs.warning() == "Times cannot be compared: A's are modelled, B's are measured.");
  for (const ComparedValue& value : viewer.runs.values())
    if (value.unit == ComparedValue::Unit::time) CHECK_FALSE(value.difference());
  CHECK(ComparisonView::timeline_of(viewer.runs, Side::a).other_words.empty());
  // The same step takes ten times as long on B's clock; both are equally wide.
  SampleRun slow = wall;
  for (StageTimes& stage : slow.times.stages) stage = {10 * ms, 20 * ms, 10 * ms, 10 * ms};
  auto fast = model_of(sample_gpipe(4, 8, 4));
  const ComparedRuns runs{*fast, model_of(slow)};
  for (const Side side : both_sides)
    CHECK(runs.model(side).viewport.window().width() ==
          doctest::Approx(1.06 * static_cast<double>(runs.metrics(side).time())));
}

TEST_CASE("a comparison fits windows of any size, and runs of different sizes") {
  Comparing viewer{sample_gpipe(2, 4, 3), sample_1f1b(12, 16, 3)};
  for (const auto& [width, height] :
       {std::pair{1366.0f, 768.0f}, {3840.0f, 2160.0f}, {320.0f, 320.0f}, {4000.0f, 330.0f}}) {
    ImGui::GetIO().DisplaySize = {width, height};
    for (const float y : {100.0f, 0.4f * height, 0.6f * height, 0.9f * height})
      viewer.move(width / 2, y);
    viewer.press(keys::x);
    viewer.press(keys::v);
    viewer.type("?");
    viewer.press(keys::escape);
  }
  CHECK(viewer.runs.ranks().size() == 12);
  CHECK(value_words(ComparedValue::Unit::bytes, viewer.runs.ranks()[5].memory.a) == "-");
}
