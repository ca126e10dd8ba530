#include "viz/views/tip.h"

#include <algorithm>
#include <array>

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
  painter.fill(box, palette.tip, painter.px(5));
  painter.frame(box, palette.tip_edge, painter.px(5));
  painter.fill(
      {box.left, box.top + painter.px(5), box.left + painter.px(3), box.bottom - painter.px(5)},
      colour);
  float y = box.top + painter.px(padding) - painter.px(1);
  for (std::size_t i = 0; i < lines.size(); ++i) {
    ImFont* font = i == 0 ? look.bold : look.small;
    painter.text(box.left + painter.px(padding), y, lines[i],
                 i == 0 ? palette.text : palette.text_dim, font);
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

Rect place_outside(const Rect& item, const Rect& clear, ImVec2 size, ImVec2 window, bool below,
                   float gap) {
  const auto within = [](float at, float length, float most) {
    return std::max(0.0f, std::min(at, most - length));
  };
  const float x = within(item.left, size.x, window.x), y = within(item.top, size.y, window.y);
  const ImVec2 on_right{clear.right + gap, y}, on_left{clear.left - gap - size.x, y};
  const ImVec2 under{x, clear.bottom + gap}, over{x, clear.top - gap - size.y};
  const auto sides = below ? std::array{under, over, on_right, on_left}
                           : std::array{on_right, on_left, under, over};
  const auto box = [&](ImVec2 at) { return Rect{at.x, at.y, at.x + size.x, at.y + size.y}; };
  for (const ImVec2 at : sides)
    if (at.x >= 0 && at.y >= 0 && at.x + size.x <= window.x && at.y + size.y <= window.y)
      return box(at);
  return box({within(sides[0].x, size.x, window.x), within(sides[0].y, size.y, window.y)});
}

void tip_outside(const Painter& painter, const Rect& item, const Rect& clear, bool below,
                 const std::vector<std::string>& lines) {
  const Painter front{ImGui::GetForegroundDrawList(), painter.look()};
  ImFont* font = front.look().small;
  float width = 0;
  for (const std::string& each : lines) width = std::max(width, front.text_width(each, font));
  const float line = size_of(font) + front.px(line_gap);
  const ImVec2 size{width + 2 * front.px(padding),
                    line * static_cast<float>(lines.size()) + front.px(line_gap)};
  const Rect box =
      place_outside(item, clear, size, ImGui::GetIO().DisplaySize, below, front.px(line_gap));
  front.fill(box, palette.tip, front.px(4));
  front.frame(box, palette.tip_edge, front.px(4));
  float y = box.top + front.px(line_gap);
  for (const std::string& each : lines) {
    front.text(box.left + front.px(padding), y, each, palette.text, font);
    y += line;
  }
}

}  // namespace lockstep::viz
