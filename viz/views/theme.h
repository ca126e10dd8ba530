#pragma once

#include <imgui.h>

#include <array>
#include <string>
#include <vector>

#include "core/base/span.h"
#include "core/device/memory.h"
#include "viz/data/step/mean_step.h"
#include "viz/data/window/settings.h"
#include "viz/palette.h"
#include "viz/read/timeline/step_account.h"

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

/// A text that was drawn, for tests of the layout.
struct DrawnText {
  ImVec2 min, max;            ///< of the text
  ImVec2 clip_min, clip_max;  ///< of the area in which it is visible
  const ImDrawList* layer = nullptr;
  std::string words;
  bool raised = false;  ///< a label, which may cover what was drawn before it
};

/// The look of a view: fonts, hatching and the pixels per layout unit.
struct Look {
  ImFont* body = nullptr;
  ImFont* bold = nullptr;
  ImFont* small = nullptr;
  ImFont* large = nullptr;
  ImTextureID hatch{};  ///< lines at 45 degrees, white on transparent; repeats every hatch_pixels
  float scale = 1;
  std::vector<DrawnText>* texts = nullptr;  ///< if set, records the texts drawn
  float px(float units) const { return units * scale; }
};
constexpr float hatch_pixels = 8;

// viz/palette.h has the colours of both themes, which CMake writes from palette.csv: Palette,
// dark_palette and light_palette. Categories differ in lightness as well as in hue, to remain
// distinct for colour-blind users: forward is the darkest kind of work, the weight gradient the
// lightest.
static_assert(dark_palette.axes.size() == axis_slot_count);
static_assert(dark_palette.memory.size() == memory_category_count);

/// The palette in use.
inline Palette palette = dark_palette;

/// Colours that tell ranks and groups apart: none of them means a kind of work. Used by all themes.
constexpr std::array<ImU32, 8> group_colours{
    IM_COL32(74, 42, 198, 255),  IM_COL32(245, 211, 125, 255), IM_COL32(48, 118, 36, 255),
    IM_COL32(217, 94, 137, 255), IM_COL32(88, 207, 250, 255),  IM_COL32(142, 51, 118, 255),
    IM_COL32(134, 178, 41, 255), IM_COL32(153, 89, 193, 255)};

/// Returns the colour of a part of a step. Exposed communication has the colour of its axis, whose
/// slot axis_slots() returns.
inline ImU32 colour_of(StepPart part, int slot = -1) {
  switch (part) {
    case StepPart::compute:
      return palette.forward;
    case StepPart::optimizer:
      return palette.optimizer;
    case StepPart::transfer:
    case StepPart::latency:
    case StepPart::late_peer:
      return slot < 0 ? palette.communication : palette.axes[static_cast<std::size_t>(slot)];
    case StepPart::cool_down:
      return palette.cool_down;
    case StepPart::warm_up:
      return palette.warm_up;
    case StepPart::waiting:
      return palette.wait;
    case StepPart::other:
      break;
  }
  return palette.other;
}

/// Returns the colour of a span's box.
inline ImU32 colour_of(Category category) {
  switch (category) {
    case Category::forward:
      return palette.forward;
    case Category::backward:
      return palette.backward;
    case Category::backward_input:
      return palette.backward_input;
    case Category::backward_weight:
      return palette.backward_weight;
    case Category::recompute:
      return palette.recompute;
    case Category::optimizer:
      return palette.optimizer;
    case Category::communication:
      return palette.communication;
    case Category::wait:
      return palette.wait;
    case Category::step:
      return palette.step;
    case Category::kernel:
      return palette.kernel;
    case Category::copy:
      return palette.other;
    case Category::host:
      return palette.step;
  }
  return palette.kernel;
}

/// Returns the colour of a memory category. Parameters, gradients and optimizer states persist;
/// activations and communication buffers are temporary.
inline ImU32 colour_of(MemoryCategory category) {
  return palette.memory[static_cast<std::size_t>(category)];
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

/// Returns the colour of a rank or of a group, by its number. Hues repeat after eight numbers, in
/// three shades.
constexpr ImU32 group_colour(std::size_t number) {
  const std::size_t count = group_colours.size();
  const auto round = static_cast<float>((number / count) % 3);
  return mixed(group_colours[number % count], IM_COL32_BLACK, 0.2f * round);
}

/// The share of its cause's colour in the background of idle time, and the share of its own colour
/// in a label.
constexpr float idle_fill_share = 0.22f, pill_share = 0.16f;

/// Returns the contrast ratio of two colours (WCAG 2): 1 to 21; text needs 4.5.
double contrast(ImU32 a, ImU32 b);
/// Returns the colour of text on a coloured area: dark or white, whichever contrasts more.
ImU32 ink_on(ImU32 colour);

/// The lines of a hatch: they run along (x, -y) on the screen, whose y axis points down. Steep
/// lines mean a bubble, flat lines exposed communication.
struct Hatch {
  float x = 1, y = 1;  ///< lines per hatch_pixels in each direction
  bool operator==(const Hatch&) const = default;
};

/// Returns the hatch of a cause of idle time. Each cause has its own angle, so that causes differ
/// without their colours.
constexpr Hatch hatch_of(StepPart part) {
  switch (part) {
    case StepPart::warm_up:
      return {1, 0.5f};  // steep, rising
    case StepPart::waiting:
      return {1, 0};  // vertical
    case StepPart::cool_down:
      return {1, -0.5f};  // steep, falling
    case StepPart::transfer:
      return {0, 1};  // horizontal
    case StepPart::latency:
      return {0.5f, 1};  // flat, rising
    case StepPart::late_peer:
      return {-0.5f, 1};  // flat, falling
    case StepPart::compute:
    case StepPart::optimizer:
    case StepPart::other:
      break;
  }
  return {1, 1};
}

/// Uses the theme's palette, and gives Dear ImGui's own widgets a matching style.
void apply_theme(float scale, Theme theme = Theme::dark);

}  // namespace lockstep::viz
