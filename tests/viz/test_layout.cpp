// No text is cut or covers another, at any size of the window, scale, and number of ranks.
#include <doctest/doctest.h>

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <memory>
#include <string>
#include <tuple>
#include <vector>

#include "tests/support/temporary_folder.h"
#include "tests/viz/headless.h"
#include "tests/viz/sample_run.h"
#include "viz/app/fonts.h"
#include "viz/app/lab_screen.h"
#include "viz/views/tip.h"

using namespace lockstep;
using namespace lockstep::viz;

namespace {

/// Returns the texts of which a part is not visible, and the pairs that cover each other. Lanes
/// that the window scrolls may end anywhere, so texts that their edge cuts vertically don't count.
std::vector<std::string> faults(const std::vector<DrawnText>& texts, ImVec2 size) {
  std::vector<std::string> faults;
  constexpr float slack = 1;  // pixels
  std::vector<const DrawnText*> visible;
  for (const DrawnText& text : texts) {
    const float left = std::max(text.min.x, text.clip_min.x);
    const float right = std::min(text.max.x, text.clip_max.x);
    const float top = std::max(text.min.y, text.clip_min.y);
    const float bottom = std::min(text.max.y, text.clip_max.y);
    if (left >= right || top >= bottom) {
      const bool outside = text.clip_min.y <= 0 && text.clip_max.y >= size.y;
      if (outside) faults.push_back("outside the window: " + text.words);
      continue;
    }
    if (text.min.x < text.clip_min.x - slack || text.max.x > text.clip_max.x + slack)
      faults.push_back("cut: " + text.words);
    const bool scrolls = text.clip_min.y > 0 || text.clip_max.y < size.y;
    if (!scrolls && (text.min.y < -slack || text.max.y > size.y + slack))
      faults.push_back("cut vertically: " + text.words);
    visible.push_back(&text);
  }
  for (std::size_t i = 0; i < visible.size(); ++i)
    for (std::size_t j = 0; j < i; ++j) {
      const DrawnText &a = *visible[i], &b = *visible[j];
      if (a.layer != b.layer || a.raised) continue;  // a was drawn after b
      const float across = std::min(a.max.x, b.max.x) - std::max(a.min.x, b.min.x);
      const float down = std::min({a.max.y, b.max.y, a.clip_max.y, b.clip_max.y}) -
                         std::max({a.min.y, b.min.y, a.clip_min.y, b.clip_min.y});
      // Fonts have space above and below their letters.
      const float line = std::min(a.max.y - a.min.y, b.max.y - b.min.y);
      if (across > slack && down > 0.3f * line)
        faults.push_back(fmt::format("\"{}\" covers \"{}\"", a.words, b.words));
    }
  return faults;
}

struct Case {
  int width, height;
  float scale;
};
constexpr Case cases[] = {{1280, 720, 1},  {1600, 900, 1},  {1920, 1080, 1}, {1280, 720, 2},
                          {1920, 1080, 2}, {3840, 2160, 2}, {1366, 768, 1},  {1024, 600, 1}};

/// Draws screens of a size and scale, and records their texts.
class Drawn : public Headless {
 public:
  explicit Drawn(const Case& size) {
    ImGui::GetIO().DisplaySize = {static_cast<float>(size.width), static_cast<float>(size.height)};
    ImFontAtlas& atlas = *ImGui::GetIO().Fonts;
    atlas.Clear();
    look_.scale = size.scale;
    load_fonts(look_, {});
    unsigned char* pixels = nullptr;
    int width = 0, height = 0;
    atlas.GetTexDataAsRGBA32(&pixels, &width, &height);
    apply_theme(size.scale);
    ImGui::GetIO().FontDefault = look_.body;
    record(&texts);
  }

  /// Draws a few frames, because some widths are known only after the first, and keeps the texts of
  /// the last.
  template <class AnyScreen, class AnyModel>
  void draw_screen(AnyScreen& screen, AnyModel& model, float x = 0, float y = 0) {
    for (int i = 0; i < 3; ++i) {
      texts.clear();
      draw(screen, model, x, y);
    }
  }
  void draw_lab(LabScreen& screen, LabBench& bench, Model& model) {
    for (int i = 0; i < 3; ++i) {
      texts.clear();
      bench.update();
      viz::set_cursor({0, 0});
      ImGui::NewFrame();
      screen.draw(bench, model, look_);
      ImGui::Render();
    }
  }
  /// Requires that the texts drawn last have no faults.
  void check(const Case& size, const std::string& what) const {
    const auto found = faults(texts, ImGui::GetIO().DisplaySize);
    CAPTURE(what);
    CAPTURE(size.width);
    CAPTURE(size.height);
    CAPTURE(size.scale);
    CHECK(texts.size() > 5);
    std::string list;
    for (std::size_t i = 0; i < std::min<std::size_t>(found.size(), 5); ++i)
      list += found[i] + "\n";
    CHECK(list == "");
  }

  std::vector<DrawnText> texts;
};

}  // namespace

TEST_CASE("no text is cut or covers another: 1 to 64 ranks, from 1280 x 720 to 4K, two scales") {
  for (const int ranks : {1, 4, 16, 64}) {
    Model model;
    read_sample(sample_traces(sample_1f1b(ranks, std::max(ranks, 8), 3)), model.timeline);
    model.timeline.settle();
    for (const Case& each : cases) {
      Drawn window{each};
      Screen screen;
      model.view = {};
      model.viewport.fit_steps(model.timeline, 1, 2);
      for (const Panel panel : panels_for(contents_of(model.timeline)).choices) {
        model.view.panel = panel;
        window.draw_screen(screen, model);
        window.check(each, fmt::format("{} ranks, {}", ranks, panel_names({panel})));
      }
    }
  }
}

TEST_CASE("no text is cut or covers another: each state of the controls") {
  Model model;
  read_sample(sample_traces(sample_1f1b(16, 16, 4)), model.timeline);
  model.timeline.settle();
  model.source.name = "a-folder-with-a-very-long-name-of-a-run-2026-11-26-22-00-00";
  model.source.recent = {"/home/user/runs/20261126-101500-09", "/home/user/runs/latest"};
  const auto nothing = [](Model&) {};
  const std::pair<const char*, std::function<void(Model&)>> states[] = {
      {"nothing", nothing},
      {"dialog", [](Model& m) { m.view.opening = true; }},
      {"dropped",
       [](Model& m) {
         m.view.opening = true;
         m.view.dropped = {"/a/run", "/b/run"};
       }},
      {"export", [](Model& m) { m.view.exports = true; }},
      {"locked step", [](Model& m) { m.view.locked_step = 1; }},
      {"notice",
       [](Model& m) { m.source.notice = "the viewer compares two runs: c is not shown"; }},
      {"playback", [](Model& m) { m.playback.toggle(m.timeline, m.viewport); }},
      {"range", [](Model& m) {
         const StepWindow& step = m.timeline.steps()[1];
         m.view.range = range_statistics(m.timeline, {step.start, step.end});
       }}};
  for (const auto& [name, enter] : states) {
    for (const Case& each : cases) {
      Drawn window{each};
      Screen screen;
      model.view = {};
      model.playback = {};
      model.source.notice.clear();
      model.viewport.fit_steps(model.timeline, 1, 2);
      model.viewport.advance(model.timeline, 0, true);
      enter(model);
      window.draw_screen(screen, model);
      window.check(each, name);
    }
  }
}

TEST_CASE("no text is cut or covers another: two runs") {
  for (const int ranks : {4, 16}) {
    Model a;
    auto b = std::make_unique<Model>();
    read_sample(sample_traces(sample_1f1b(ranks, 16, 4)), a.timeline);
    read_sample(sample_traces(sample_gpipe(ranks, 16, 4)), b->timeline);
    ComparedRuns runs{a, std::move(b)};
    for (const Case& each : cases) {
      // In a smaller window, the cards of a comparison have no room.
      if (static_cast<float>(each.width) < 900 * each.scale) continue;
      Drawn window{each};
      ComparisonScreen screen;
      window.draw_screen(screen, runs);
      window.check(each, fmt::format("two runs of {} ranks", ranks));
    }
  }
}

TEST_CASE("no text is cut or covers another: the lab, with boards of 1 to 64 microbatches") {
  const testing::TemporaryFolder folder;
  Model model;
  read_sample(sample_traces(sample_1f1b(4, 8, 3)), model.timeline);
  model.timeline.settle();
  for (const auto& [ranks, microbatches, placement] : {std::tuple{2, 3, Placement::loop},
                                                       {3, 3, Placement::v},
                                                       {4, 3, Placement::loop},
                                                       {4, 1, Placement::loop},
                                                       {4, 8, Placement::loop},
                                                       {16, 64, Placement::v}}) {
    LabBench bench{folder.path() / "lab", folder.path() / "exports"};
    bench.settings.ranks = ranks;
    bench.settings.microbatches = microbatches;
    bench.placement = placement;
    bench.settings.memory_limit = 2;
    bench.settings.latency = 123'000'000;
    bench.new_board();
    bench.page = LabBench::Page::board;
    bench.update();
    for (const char* state : {"empty", "begun", "outdated", "complete"}) {
      if (state == std::string{"begun"}) bench.play({0, {Op::forward, 0, 0}, {}});
      if (state == std::string{"outdated"}) bench.settings.microbatches = 5;
      if (state == std::string{"complete"})
        while (!bench.board.complete() && bench.board.placed() < 300)
          for (int rank = 0; rank < ranks; ++rank)
            if (const auto legal = bench.board.legal_moves(rank); !legal.empty())
              bench.board.play(legal.back());
      for (const Case& each : cases) {
        Drawn window{each};
        LabScreen screen;
        window.draw_lab(screen, bench, model);
        window.check(
            each, fmt::format("{} board, {} ranks, {} microbatches", state, ranks, microbatches));
      }
    }
    bench.page = LabBench::Page::schedules;
    for (const Case& each : cases) {
      Drawn window{each};
      LabScreen screen;
      window.draw_lab(screen, bench, model);
      window.check(each, fmt::format("schedules, {} ranks", ranks));
    }
  }
}

TEST_CASE("a box beside an item covers nothing around it, if there is room") {
  const ImVec2 window{1000, 800};
  for (const bool below : {false, true})
    for (float x = 0; x <= 700; x += 100)
      for (float y = 0; y <= 600; y += 100) {
        const Rect clear{x, y, x + 300, y + 200};
        const Rect item{x + 120, y + 90, x + 140, y + 110};
        const ImVec2 size{280, 60};
        const Rect box = place_outside(item, clear, size, window, below, 4);
        CAPTURE(x);
        CAPTURE(y);
        CHECK(box.width() == size.x);
        CHECK(box.height() == size.y);
        CHECK((box.left >= 0 && box.top >= 0));
        CHECK((box.right <= window.x && box.bottom <= window.y));
        const bool apart = box.left >= clear.right || box.right <= clear.left ||
                           box.top >= clear.bottom || box.bottom <= clear.top;
        CHECK(apart);
        if (below) CHECK((box.top == clear.bottom + 4 || box.bottom == clear.top - 4));
        if (!below) CHECK((box.left == clear.right + 4 || box.right == clear.left - 4));
      }
  // Without room on any side, the box stays in the window.
  const Rect box = place_outside({0, 0, 10, 10}, {0, 0, 1000, 800}, {300, 60}, window, false, 4);
  CHECK((box.left == 700 && box.top == 0));
}
