#include "viz/views/details_view.h"

#include <algorithm>

namespace lockstep::viz {
namespace {

constexpr float padding = 10;
constexpr float line_gap = 4;
constexpr float beside_cursor = 16;

/// Draws a box with lines of text within `limits`; the first line is the title.
void draw_lines(const Painter& painter, ImVec2 at, const Rect& limits,
                const std::vector<std::string>& lines, ImU32 colour) {
  const Look& look = painter.look();
  float width = 0, height = 2 * painter.px(padding) - painter.px(line_gap);
  for (std::size_t i = 0; i < lines.size(); ++i) {
    ImFont* font = i == 0 ? look.bold : look.small;
    width = std::max(width, painter.text_width(lines[i], font));
    height += font->FontSize + painter.px(line_gap);
  }
  width += 2 * painter.px(padding);
  Rect box{at.x, at.y, at.x + width, at.y + height};
  const float over_right = std::max(0.0f, box.right - limits.right);
  const float over_bottom = std::max(0.0f, box.bottom - limits.bottom);
  box = {box.left - over_right, box.top - over_bottom, box.right - over_right,
         box.bottom - over_bottom};
  painter.fill(box, colours::tip, painter.px(5));
  painter.frame(box, IM_COL32(70, 80, 96, 255), painter.px(5));
  painter.fill(
      {box.left, box.top + painter.px(5), box.left + painter.px(3), box.bottom - painter.px(5)},
      colour);
  float y = box.top + painter.px(padding) - painter.px(1);
  for (std::size_t i = 0; i < lines.size(); ++i) {
    ImFont* font = i == 0 ? look.bold : look.small;
    painter.text(box.left + painter.px(padding), y, lines[i],
                 i == 0 ? colours::text : colours::text_dim, font);
    y += font->FontSize + painter.px(line_gap);
  }
}

ImU32 mark_of(const Finding& finding) {
  if (finding.kind == Finding::Kind::idle) return colours::text_faint;
  if (finding.span.category == Category::wait) return colours::trouble;
  return colour_of(finding.span.category);
}

}  // namespace

void DetailsView::draw(const Painter& painter, const Rect& area, const Model& model) const {
  if (model.selected.kind != Finding::Kind::nothing) {
    const auto lines = finding_words(model.timeline, model.selected);
    draw_lines(painter, {area.right, area.bottom}, area, lines, mark_of(model.selected));
  }
  if (model.hovered.kind != Finding::Kind::nothing) {
    const ImVec2 mouse = ImGui::GetIO().MousePos;
    const ImVec2 display = ImGui::GetIO().DisplaySize;
    const float away = painter.px(beside_cursor);
    draw_lines(painter, {mouse.x + away, mouse.y + away}, {0, 0, display.x, display.y},
               finding_words(model.timeline, model.hovered), mark_of(model.hovered));
  }
}

}  // namespace lockstep::viz
