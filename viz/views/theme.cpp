#include "viz/views/theme.h"

namespace lockstep::viz {

void apply_theme(float scale, Theme theme) {
  palette = theme == Theme::light ? light_palette : dark_palette;
  ImGuiStyle& style = ImGui::GetStyle();
  style = ImGuiStyle{};  // because sizes are scaled below
  theme == Theme::light ? ImGui::StyleColorsLight() : ImGui::StyleColorsDark();
  const auto set = [&](ImGuiCol which, ImU32 colour) {
    style.Colors[which] = ImGui::ColorConvertU32ToFloat4(colour);
  };
  set(ImGuiCol_WindowBg, colours::background);
  set(ImGuiCol_PopupBg, colours::popup);
  set(ImGuiCol_Border, colours::tip_edge);
  set(ImGuiCol_Text, colours::text);
  set(ImGuiCol_FrameBg, colours::button);
  set(ImGuiCol_FrameBgHovered, colours::button_hovered);
  set(ImGuiCol_FrameBgActive, colours::button_active);
  set(ImGuiCol_SliderGrab, colours::accent);
  set(ImGuiCol_SliderGrabActive, mixed(colours::accent, colours::text, 0.3f));
  set(ImGuiCol_Button, colours::button);
  set(ImGuiCol_ButtonHovered, colours::button_hovered);
  set(ImGuiCol_ButtonActive, colours::button_active);
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
