#include "viz/views/panel_card.h"

#include <algorithm>

#include "viz/views/button.h"

namespace lockstep::viz {
namespace {

constexpr float inset = 8;         // of the buttons in the card
constexpr float tabs_height = 34;  // of the row of buttons

}  // namespace

Rect panel_card(const Painter& painter, const Rect& rect, Panel panel, std::string_view note,
                Model& model) {
  const auto& choices = model.panels.choices;
  if (choices.size() < 2 || std::ranges::count(choices, panel) == 0)
    return painter.card(rect, title_of(panel).name, note);
  Rect inside = painter.card(rect, "");
  inside.top = rect.top + painter.px(tabs_height + 4);
  const Rect tabs{rect.left, rect.top, rect.right, rect.top + painter.px(tabs_height)};
  ButtonRow row{painter, tabs, rect.left + painter.px(inset)};
  float end = tabs.left + painter.px(inset);
  for (const Panel each : choices) {
    const PanelTitle title = title_of(each);
    end += ButtonRow::width_of(painter, title.name);
    if (end > rect.right) break;
    if (row.button(title.name, each == panel, title.purpose)) model.view.panel = each;
  }
  const std::string rest = painter.fitted(note, painter.look().small, inside.right - end);
  painter.text(inside.right, (tabs.top + tabs.bottom - size_of(painter.look().small)) / 2, rest,
               colours::text_faint, painter.look().small, Align::right);
  return inside;
}

}  // namespace lockstep::viz
