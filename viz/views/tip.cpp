#include "viz/views/tip.h"

#include <algorithm>

namespace lockstep::viz {
namespace {

constexpr float padding = 10;
constexpr float line_gap = 4;
constexpr float beside_cursor = 16;

float lines_height(const Painter& painter, const std::vector<std::string>& lines) {
  const Look& look = painter.look();
  float height = 2 * painter.px(padding) - painter.px(line_gap);
  for (std::size_t i = 0; i < lines.size(); ++i)
    height += size_of(i == 0 ? look.bold : look.small) + painter.px(line_gap);
  return height;
}

/// Draws a box with lines of text within `limits`; the first line is the title.
void draw_lines(const Painter& painter, ImVec2 at, const Rect& limits,
                const std::vector<std::string>& lines, ImU32 colour) {
  const Look& look = painter.look();
  float width = 0;
  const float height = lines_height(painter, lines);
  for (std::size_t i = 0; i < lines.size(); ++i) {
    ImFont* font = i == 0 ? look.bold : look.small;
    width = std::max(width, painter.text_width(lines[i], font));
  }
  width += 2 * painter.px(padding);
  Rect box{at.x, at.y, at.x + width, at.y + height};
  const float over_right = std::max(0.0f, box.right - limits.right);
  const float over_bottom = std::max(0.0f, box.bottom - limits.bottom);
  box = {box.left - over_right, box.top - over_bottom, box.right - over_right,
         box.bottom - over_bottom};
  painter.fill(box, colours::tip, painter.px(5));
  painter.frame(box, colours::tip_edge, painter.px(5));
  painter.fill(
      {box.left, box.top + painter.px(5), box.left + painter.px(3), box.bottom - painter.px(5)},
      colour);
  float y = box.top + painter.px(padding) - painter.px(1);
  for (std::size_t i = 0; i < lines.size(); ++i) {
    ImFont* font = i == 0 ? look.bold : look.small;
    painter.text(box.left + painter.px(padding), y, lines[i],
                 i == 0 ? colours::text : colours::text_dim, font);
    y += size_of(font) + painter.px(line_gap);
  }
}

}  // namespace

void draw_tip(const Painter& painter, float above, float below,
              const std::vector<std::string>& lines, ImU32 colour) {
  const ImVec2 mouse = ImGui::GetIO().MousePos;
  const ImVec2 display = ImGui::GetIO().DisplaySize;
  const float height = lines_height(painter, lines);
  const float y = below + height > display.y ? above - height : below;
  draw_lines(painter, {mouse.x + painter.px(beside_cursor), y}, {0, 0, display.x, display.y}, lines,
             colour);
}

void draw_tip(const Painter& painter, const Rect& rect, const std::vector<std::string>& lines,
              ImU32 colour) {
  const ImVec2 display = ImGui::GetIO().DisplaySize;
  draw_lines(painter, {rect.left, rect.bottom + painter.px(padding) / 2},
             {0, 0, display.x, display.y}, lines, colour);
}

}  // namespace lockstep::viz
