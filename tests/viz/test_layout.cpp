// No text is cut or covers another, at any size of the window, scale, and number of ranks.
#include <doctest/doctest.h>

#include <fmt/format.h>

#include <algorithm>
#include <string>
#include <vector>

#include "tests/viz/headless.h"
#include "tests/viz/sample_run.h"
#include "viz/app/fonts.h"

using namespace lockstep;
using namespace lockstep::viz;

namespace {

/// Draws screens of a size and scale, and records their texts.
class Drawn : public Headless {
 public:
  Drawn(int width, int height, float scale) {
    ImGui::GetIO().DisplaySize = {static_cast<float>(width), static_cast<float>(height)};
    ImFontAtlas& atlas = *ImGui::GetIO().Fonts;
    atlas.Clear();
    look_.scale = scale;
    load_fonts(look_, {});
    unsigned char* pixels = nullptr;
    atlas.GetTexDataAsRGBA32(&pixels, &width, &height);
    apply_theme(scale);
    ImGui::GetIO().FontDefault = look_.body;
    look_.texts = &texts;
  }

  void draw_screen(Screen& screen, Model& model) {
    for (int i = 0; i < 3; ++i) {
      texts.clear();
      draw(screen, model, 0, 0);
    }
  }

  std::vector<DrawnText> texts;
  const Look& look() const { return look_; }
};

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
      if (a.layer != b.layer) continue;
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

}  // namespace

TEST_CASE("no text is cut or covers another: 1 to 64 ranks, from 1280 x 720 to 4K, two scales") {
  for (const int ranks : {1, 4, 16, 64}) {
    Model model;
    read_sample(sample_traces(sample_1f1b(ranks, std::max(ranks, 8), 3)), model.timeline);
    model.timeline.settle();
    for (const Case& each : cases) {
      Drawn window{each.width, each.height, each.scale};
      Screen screen;
      model.view = {};
      model.viewport.fit_steps(model.timeline, 1, 2);
      for (const Panel panel : panels_for(contents_of(model.timeline)).choices) {
        model.view.panel = panel;
        window.draw_screen(screen, model);
        const auto found = faults(window.texts, ImGui::GetIO().DisplaySize);
        CHECK(window.texts.size() > 20);
        CAPTURE(ranks);
        CAPTURE(each.width);
        CAPTURE(each.height);
        CAPTURE(each.scale);
        CAPTURE(panel_names({panel}));
        for (std::size_t i = 0; i < std::min<std::size_t>(found.size(), 5); ++i) {
          CAPTURE(found[i]);
          CHECK(false);
        }
        CHECK(found.empty());
      }
    }
  }
}
