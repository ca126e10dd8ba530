#include "viz/views/help_view.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <vector>

namespace lockstep::viz {
namespace {

enum class With { any, one_run, two_runs };

struct Control {
  const char* keys;
  const char* effect;
  With with = With::any;
};
constexpr Control controls[] = {
    {"Wheel", "scroll"},
    {"Ctrl+wheel, W S", "zoom at the cursor"},
    {"Shift+wheel, A D", "pan"},
    {"Drag", "select a range of time and see its statistics"},
    {"Shift+drag, middle drag", "pan"},
    {"Click", "select a span; a rank's name collapses its lanes"},
    {"Click on a step", "lock the cards to it and see its statistics; again: unlock",
     With::one_run},
    {"← →", "previous and next span of the lane"},
    {"↑ ↓", "span of the lane above and below"},
    {"Page up, Page down", "previous and next step"},
    {"F", "focus on the selection, or show the whole run"},
    {"Home", "show the whole run"},
    {"L", "follow a live run", With::one_run},
    {"Space", "replay the run slowly, or pause; drag in the time axis to scrub"},
    {"R", "next panel in the last card", With::one_run},
    {"P", "critical path"},
    {"G", "predicted schedule, below the observed one"},
    {"M", "mark the selection or the time at the cursor; again: remove the mark"},
    {"/", "search: F3, rank:1, step:2, stage:0, microbatch:5, or a part of a name"},
    {"N, Shift+N", "next and previous span that the search finds"},
    {"C", "collapse the lanes of all ranks"},
    {"T, H", "pin the rank under the cursor to the top; hide it"},
    {"Shift+H", "show all ranks"},
    {"V", "with two runs: both, or one at a time", With::two_runs},
    {"X", "with two runs: exchange A and B in the same place", With::two_runs},
    {"Shift+Page up, down", "with two runs: step of the run under the cursor only", With::two_runs},
    {"Click on a step", "with two runs: compare this step", With::two_runs},
    {"Ctrl+O, drop a file", "open another run, or compare it with this one"},
    {"Ctrl+Z, Ctrl+Y", "on the lab's board: undo, redo", With::one_run},
    {"E", "export: a picture, the timeline as SVG, or the statistics as CSV"},
    {"B", "dark or light background"},
    {"+, -, 0", "larger, smaller, or as the screen asks"},
    {"Esc", "clear the selection, the range, the search and the playback"},
    {"?", "this list"},
    {"Q", "quit"},
};
constexpr float padding = 20;
constexpr float line_gap = 6;
constexpr float column_gap = 24;

}  // namespace

void HelpView::draw(const Painter& painter, ImVec2 size, Runs runs) const {
  const Look& look = painter.look();
  const float line = size_of(look.small) + painter.px(line_gap);
  std::vector<Control> shown;
  std::ranges::copy_if(controls, std::back_inserter(shown), [&](const Control& each) {
    return each.with == With::any || (each.with == With::two_runs) == (runs == Runs::two);
  });
  float keys = 0, effects = 0;
  for (const Control& each : shown) {
    keys = std::max(keys, painter.text_width(each.keys, look.small));
    effects = std::max(effects, painter.text_width(each.effect, look.small));
  }
  const float width = keys + effects + painter.px(column_gap + 2 * padding);
  const float height =
      line * static_cast<float>(shown.size() + 2) + painter.px(2 * padding - line_gap);
  const Rect card{(size.x - width) / 2, (size.y - height) / 2, (size.x + width) / 2,
                  (size.y + height) / 2};
  painter.fill({0, 0, size.x, size.y}, faded(colours::background, 0.6f));
  painter.fill(card, colours::tip, painter.px(6));
  painter.frame(card, colours::text_faint, painter.px(6));
  const float left = card.left + painter.px(padding);
  float y = card.top + painter.px(padding);
  painter.text(left, y, "Keys and mouse", colours::text, look.bold);
  y += 2 * line;
  for (const Control& each : shown) {
    painter.text(left, y, each.keys, colours::text, look.small);
    painter.text(left + keys + painter.px(column_gap), y, each.effect, colours::text_dim,
                 look.small);
    y += line;
  }
}

std::string help_text() {
  std::string text = "Keys and mouse:\n";
  for (const Control& each : controls) text += fmt::format("  {:<25} {}\n", each.keys, each.effect);
  return text;
}

}  // namespace lockstep::viz
