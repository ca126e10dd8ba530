#pragma once

#include <imgui.h>

#include "core/device/memory.h"
#include "core/trace/pipeline_analysis.h"
#include "core/trace/span.h"

namespace lockstep::viz {

/// Returns a font's height in pixels. Since 1.92, a font has no size of its own, only the one that
/// it was loaded with.
inline float size_of(const ImFont* font) {
#if IMGUI_VERSION_NUM < 19200
  return font->FontSize;
#else
  return font->LegacySize;
#endif
}

/// The look of a view: fonts, hatching and the pixels per layout unit.
struct Look {
  ImFont* body = nullptr;
  ImFont* bold = nullptr;
  ImFont* small = nullptr;
  ImFont* large = nullptr;
  ImTextureID hatch{};  ///< diagonal lines, white on transparent; repeats every hatch_pixels
  float scale = 1;
  float px(float units) const { return units * scale; }
};
constexpr float hatch_pixels = 8;

/// A dark theme. Categories differ in lightness as well as in hue, to remain distinct for
/// colour-blind users: forward is the darkest kind of work, the weight gradient the lightest.
namespace colours {
constexpr ImU32 background = IM_COL32(17, 20, 25, 255);
constexpr ImU32 panel = IM_COL32(24, 28, 35, 255);
constexpr ImU32 panel_edge = IM_COL32(38, 44, 54, 255);
constexpr ImU32 text = IM_COL32(222, 228, 236, 255);
constexpr ImU32 text_dim = IM_COL32(146, 156, 170, 255);
constexpr ImU32 text_faint = IM_COL32(98, 108, 122, 255);
constexpr ImU32 text_on_box = IM_COL32(10, 14, 20, 255);
constexpr ImU32 grid = IM_COL32(255, 255, 255, 14);
constexpr ImU32 step_line = IM_COL32(255, 255, 255, 60);
constexpr ImU32 lane = IM_COL32(29, 33, 41, 255);  ///< background of a lane
constexpr ImU32 idle_hatch = IM_COL32(255, 255, 255, 20);
constexpr ImU32 tip = IM_COL32(32, 37, 46, 255);  ///< background of a tooltip
constexpr ImU32 critical_path = IM_COL32(255, 110, 200, 255);
constexpr ImU32 mark = IM_COL32(120, 220, 190, 255);
constexpr ImU32 highlight = IM_COL32(255, 255, 255, 235);
constexpr ImU32 accent = IM_COL32(94, 164, 238, 255);
constexpr ImU32 wall_clock = IM_COL32(126, 200, 130, 255);
constexpr ImU32 modelled_clock = IM_COL32(232, 178, 80, 255);
constexpr ImU32 trouble = IM_COL32(235, 108, 100, 255);
constexpr ImU32 live = IM_COL32(102, 210, 130, 255);
constexpr ImU32 loss = IM_COL32(240, 240, 245, 255);
constexpr ImU32 message = IM_COL32(240, 200, 120, 150);

constexpr ImU32 forward = IM_COL32(74, 138, 220, 255);
constexpr ImU32 backward = IM_COL32(64, 184, 160, 255);
constexpr ImU32 backward_input = IM_COL32(64, 184, 160, 255);
constexpr ImU32 backward_weight = IM_COL32(176, 214, 120, 255);
constexpr ImU32 recompute = IM_COL32(138, 176, 226, 255);
constexpr ImU32 optimizer = IM_COL32(172, 128, 222, 255);
constexpr ImU32 communication = IM_COL32(226, 162, 58, 255);
constexpr ImU32 step = IM_COL32(70, 78, 92, 255);
constexpr ImU32 kernel = IM_COL32(122, 138, 160, 255);
}  // namespace colours

/// Returns the colour of idle time, by cause. Warm-up and cool-down belong to the schedule, so they
/// are muted; a straggler is what most needs attention.
constexpr ImU32 colour_of(IdleCause cause) {
  switch (cause) {
    case IdleCause::warm_up:
      return IM_COL32(112, 128, 176, 255);
    case IdleCause::cool_down:
      return IM_COL32(156, 124, 176, 255);
    case IdleCause::waiting:
      return IM_COL32(120, 138, 146, 255);
    case IdleCause::straggler:
      return IM_COL32(240, 92, 88, 255);
    case IdleCause::messages:
      return IM_COL32(226, 162, 58, 255);
    case IdleCause::other:
      return IM_COL32(96, 102, 112, 255);
  }
  return colours::kernel;
}

/// Returns the colour of a span's box.
constexpr ImU32 colour_of(Category category) {
  switch (category) {
    case Category::forward:
      return colours::forward;
    case Category::backward:
      return colours::backward;
    case Category::backward_input:
      return colours::backward_input;
    case Category::backward_weight:
      return colours::backward_weight;
    case Category::recompute:
      return colours::recompute;
    case Category::optimizer:
      return colours::optimizer;
    case Category::communication:
      return colours::communication;
    case Category::wait:
      return colour_of(IdleCause::waiting);
    case Category::step:
      return colours::step;
    case Category::kernel:
      return colours::kernel;
  }
  return colours::kernel;
}

/// Returns the colour of a memory category. Parameters, gradients and optimizer states persist;
/// activations and communication buffers are temporary.
constexpr ImU32 colour_of(MemoryCategory category) {
  switch (category) {
    case MemoryCategory::parameters:
      return IM_COL32(92, 108, 138, 255);
    case MemoryCategory::gradients:
      return IM_COL32(64, 150, 134, 255);
    case MemoryCategory::optimizer:
      return IM_COL32(142, 108, 186, 255);
    case MemoryCategory::activations:
      return IM_COL32(74, 138, 220, 255);
    case MemoryCategory::communication:
      return IM_COL32(226, 162, 58, 255);
  }
  return colours::kernel;
}

/// Returns the colour with its opacity multiplied by `share`.
constexpr ImU32 faded(ImU32 colour, float share) {
  const auto alpha = static_cast<float>((colour >> IM_COL32_A_SHIFT) & 0xff) * share;
  return (colour & ~IM_COL32_A_MASK) | (static_cast<ImU32>(alpha + 0.5f) << IM_COL32_A_SHIFT);
}

/// Interpolates linearly from `a` to `b`, opacity included; `share` 0 is `a`.
constexpr ImU32 mixed(ImU32 a, ImU32 b, float share) {
  ImU32 result = 0;
  for (int shift = 0; shift < 32; shift += 8) {
    const auto from = static_cast<float>((a >> shift) & 0xff);
    const auto to = static_cast<float>((b >> shift) & 0xff);
    result |= static_cast<ImU32>(from + (to - from) * share + 0.5f) << shift;
  }
  return result;
}

/// Gives Dear ImGui's own widgets a matching style.
void apply_theme(float scale);

}  // namespace lockstep::viz
