#include "viz/views/theme.h"

#include <algorithm>
#include <cmath>

namespace lockstep::viz {
namespace {

/// The relative luminance of WCAG 2.
double luminance(ImU32 colour) {
  const auto linear = [&](int shift) {
    const double value = static_cast<double>((colour >> shift) & 0xff) / 255;
    return value <= 0.04045 ? value / 12.92 : std::pow((value + 0.055) / 1.055, 2.4);
  };
  return 0.2126 * linear(IM_COL32_R_SHIFT) + 0.7152 * linear(IM_COL32_G_SHIFT) +
         0.0722 * linear(IM_COL32_B_SHIFT);
}

}  // namespace

double contrast(ImU32 a, ImU32 b) {
  const double one = luminance(a) + 0.05, other = luminance(b) + 0.05;
  return std::max(one, other) / std::min(one, other);
}

ImU32 ink_on(ImU32 colour) {
  return contrast(colours::text_on_box, colour) >= contrast(IM_COL32_WHITE, colour)
             ? colours::text_on_box
             : IM_COL32_WHITE;
}

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
