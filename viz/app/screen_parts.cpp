#include "viz/app/screen_parts.h"

#include <algorithm>

#include "viz/views/status_view.h"
#include "viz/views/toolbar_view.h"

namespace lockstep::viz {
namespace {

constexpr float edge = 12;
constexpr float column_share = 0.36f;  // of the window's width
constexpr float least_column = 280, most_column = 360;

}  // namespace

void begin_screen() {
  ImGui::SetNextWindowPos({0, 0});
  ImGui::SetNextWindowSize(ImGui::GetIO().DisplaySize);
  ImGui::Begin("Lockstep", nullptr,
               ImGuiWindowFlags_NoDecoration | ImGuiWindowFlags_NoMove |
                   ImGuiWindowFlags_NoSavedSettings | ImGuiWindowFlags_NoBringToFrontOnFocus |
                   ImGuiWindowFlags_NoScrollWithMouse | ImGuiWindowFlags_NoNav |
                   ImGuiWindowFlags_NoBackground);
}

ScreenParts screen_parts(const Painter& painter, const ScreenHeights& heights) {
  const ImVec2 size = ImGui::GetIO().DisplaySize;
  ScreenParts parts;
  parts.bar = {0, 0, size.x, painter.px(heights.bar)};
  parts.line = {0, size.y - heights.line, size.x, size.y};
  parts.toolbar = {0, parts.bar.bottom, size.x, parts.bar.bottom + painter.px(ToolbarView::height)};
  if (size.x < painter.px(heights.least_row)) {
    parts.column = true;
    const float width =
        std::clamp(column_share * size.x, painter.px(least_column), painter.px(most_column));
    parts.cards = {size.x - width, parts.toolbar.bottom + painter.px(edge),
                   size.x - painter.px(edge), parts.line.top};
    parts.middle = {0, parts.toolbar.bottom, parts.cards.left, parts.line.top};
    return parts;
  }
  const float cards = std::min(painter.px(heights.cards), heights.cards_share * size.y);
  parts.cards = {painter.px(edge), parts.line.top - cards, size.x - painter.px(edge),
                 parts.line.top};
  parts.middle = {0, parts.toolbar.bottom, size.x, parts.cards.top - painter.px(edge)};
  return parts;
}

}  // namespace lockstep::viz
