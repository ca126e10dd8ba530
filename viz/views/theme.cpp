#include "viz/views/theme.h"

namespace lockstep::viz {

void apply_theme(float scale) {
  ImGui::StyleColorsDark();
  ImGuiStyle& style = ImGui::GetStyle();
  const auto set = [&](ImGuiCol which, ImU32 colour) {
    style.Colors[which] = ImGui::ColorConvertU32ToFloat4(colour);
  };
  set(ImGuiCol_WindowBg, colours::background);
  set(ImGuiCol_PopupBg, IM_COL32(32, 37, 46, 250));
  set(ImGuiCol_Border, IM_COL32(64, 72, 86, 255));
  set(ImGuiCol_Text, colours::text);
  set(ImGuiCol_FrameBg, IM_COL32(38, 44, 54, 255));
  set(ImGuiCol_FrameBgHovered, IM_COL32(48, 56, 68, 255));
  set(ImGuiCol_FrameBgActive, IM_COL32(54, 64, 80, 255));
  set(ImGuiCol_SliderGrab, colours::accent);
  set(ImGuiCol_SliderGrabActive, mixed(colours::accent, IM_COL32_WHITE, 0.3f));
  set(ImGuiCol_Button, IM_COL32(38, 44, 54, 255));
  set(ImGuiCol_ButtonHovered, IM_COL32(52, 60, 74, 255));
  set(ImGuiCol_ButtonActive, IM_COL32(62, 72, 90, 255));
  style.WindowRounding = 0;
  style.WindowBorderSize = 0;
  style.WindowPadding = {0, 0};
  style.FrameRounding = 4;
  style.GrabRounding = 4;
  style.PopupRounding = 5;
  style.PopupBorderSize = 1;
  style.ScaleAllSizes(scale);
}

}  // namespace lockstep::viz
