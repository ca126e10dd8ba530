#include "viz/views/export_view.h"

#include <algorithm>
#include <utility>

#include "viz/views/button.h"

namespace lockstep::viz {
namespace {

constexpr float padding = 18;
constexpr float row_height = 34;
constexpr std::pair<const char*, Export> choices[] = {{"PNG picture", Export::png},
                                                      {"SVG of the timeline", Export::svg},
                                                      {"CSV of the statistics", Export::csv}};

}  // namespace

void ExportView::draw(const Look& look, ImVec2 size, Model& model) const {
  // A separate window, because the timeline would take the clicks in the main one.
  begin_overlay("export", {0, 0}, size);
  const Painter painter{ImGui::GetWindowDrawList(), look};
  ViewState& view = model.view;
  const std::string where = "into " + model.source.export_folder + "; no file is replaced";
  float width = 2 * painter.px(padding) - ButtonRow::gap_of(painter);
  for (const auto& [words, what] : choices) width += ButtonRow::width_of(painter, words);
  for (const std::string& words : {where, view.exported})
    width = std::max(width, painter.text_width(words, look.small) + 2 * painter.px(padding));
  width = std::min(width, size.x);
  const float height = painter.px(3 * row_height + 2 * padding) + size_of(look.bold);
  const Rect card{(size.x - width) / 2, (size.y - height) / 2, (size.x + width) / 2,
                  (size.y + height) / 2};
  painter.fill({0, 0, size.x, size.y}, faded(palette.background, 0.5f));
  painter.fill(card, palette.tip, painter.px(6));
  painter.frame(card, palette.text_faint, painter.px(6));
  const float left = card.left + painter.px(padding);
  float y = card.top + painter.px(padding);
  painter.text(left, y, "Export", palette.text, look.bold);
  y += size_of(look.bold) + painter.px(6);
  ButtonRow row{painter, {card.left, y, card.right, y + painter.px(row_height)}, left};
  for (const auto& [words, what] : choices)
    if (row.button(words, false, "")) view.wanted = what;
  y += painter.px(row_height + 6);
  const float room = card.width() - 2 * painter.px(padding);
  painter.text(left, y, painter.fitted(where, look.small, room), palette.text_dim, look.small);
  y += size_of(look.small) + painter.px(8);
  painter.text(left, y, painter.fitted(view.exported, look.small, room), palette.text, look.small);
  ImGui::End();
}

}  // namespace lockstep::viz
