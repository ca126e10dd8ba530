#include "viz/views/panel_card.h"

#include <algorithm>
#include <tuple>
#include <vector>

#include "viz/views/button.h"

namespace lockstep::viz {
namespace {

constexpr const char* next_words = ">";
constexpr float inset = 8;         // of the buttons in the card
constexpr float tabs_height = 34;  // of the row of buttons

}  // namespace

Rect panel_card(const Painter& painter, const Rect& rect, Panel panel, std::string_view note,
                Model& model) {
  const auto& choices = model.panels.choices;
  if (choices.size() < 2 || std::ranges::count(choices, panel) == 0)
    return painter.card(rect, info_of(panel).name, note);
  Rect inside = painter.card(rect, "");
  inside.top = rect.top + painter.px(tabs_height + 4);
  const Rect tabs{rect.left, rect.top, rect.right, rect.top + painter.px(tabs_height)};
  const float left = tabs.left + painter.px(inset);
  const auto shown = static_cast<std::size_t>(std::ranges::find(choices, panel) - choices.begin());
  std::vector<float> widths;
  for (const Panel each : choices)
    widths.push_back(ButtonRow::width_of(painter, info_of(each).name));
  const float next = ButtonRow::width_of(painter, next_words);
  auto [first, last] = range_that_fits(widths, shown, tabs.right - left);
  const bool all = last - first == choices.size();
  if (!all) std::tie(first, last) = range_that_fits(widths, shown, tabs.right - left - next);

  ButtonRow row{painter, tabs, left};
  float end = left;
  for (std::size_t i = first; i < last; ++i) {
    const PanelInfo& info = info_of(choices[i]);
    if (row.button(info.name, choices[i] == panel, info.purpose)) model.view.panel = choices[i];
    end += widths[i];
  }
  if (!all) {
    if (row.button(next_words, false, "the next panel (R)"))
      model.view.panel = model.panels.next(model.view.panel);
    end += next;
  }
  // A truncated note would say nothing, and the other cards also show the step.
  ImFont* small = painter.look().small;
  if (painter.text_width(note, small) <= inside.right - end)
    painter.text(inside.right, (tabs.top + tabs.bottom - size_of(small)) / 2, note,
                 palette.text_faint, small, Align::right);
  return inside;
}

}  // namespace lockstep::viz
