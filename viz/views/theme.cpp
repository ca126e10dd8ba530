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
  return contrast(palette.text_on_box, colour) >= contrast(IM_COL32_WHITE, colour)
             ? palette.text_on_box
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
  set(ImGuiCol_WindowBg, palette.background);
  set(ImGuiCol_PopupBg, palette.popup);
  set(ImGuiCol_Border, palette.tip_edge);
  set(ImGuiCol_Text, palette.text);
  set(ImGuiCol_FrameBg, palette.button);
  set(ImGuiCol_FrameBgHovered, palette.button_hovered);
  set(ImGuiCol_FrameBgActive, palette.button_active);
  set(ImGuiCol_SliderGrab, palette.accent);
  set(ImGuiCol_SliderGrabActive, mixed(palette.accent, palette.text, 0.3f));
  set(ImGuiCol_Button, palette.button);
  set(ImGuiCol_ButtonHovered, palette.button_hovered);
  set(ImGuiCol_ButtonActive, palette.button_active);
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
