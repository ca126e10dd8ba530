#include "viz/app/screen_parts.h"

#include <algorithm>

#include "viz/views/status_view.h"
#include "viz/views/toolbar_view.h"

namespace lockstep::viz {
namespace {

constexpr float edge = 12;

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
  parts.line = {0, size.y - painter.px(StatusView::line_height), size.x, size.y};
  const float cards = std::min(painter.px(heights.cards), heights.cards_share * size.y);
  parts.cards = {painter.px(edge), parts.line.top - cards, size.x - painter.px(edge),
                 parts.line.top};
  parts.toolbar = {0, parts.bar.bottom, size.x, parts.bar.bottom + painter.px(ToolbarView::height)};
  parts.middle = {0, parts.toolbar.bottom, size.x, parts.cards.top - painter.px(edge)};
  return parts;
}

}  // namespace lockstep::viz
