#pragma once

#include <imgui.h>

#include <array>
#include <string>
#include <vector>

#include "core/base/span.h"
#include "core/device/memory.h"
#include "viz/data/step/mean_step.h"
#include "viz/data/window/settings.h"
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

/// The colours of a theme. Categories differ in lightness as well as in hue, to remain distinct for
/// colour-blind users: forward is the darkest kind of work, the weight gradient the lightest.
struct Palette {
  ImU32 background;
  ImU32 panel;
  ImU32 panel_edge;
  ImU32 text;
  ImU32 text_dim;
  ImU32 text_faint;
  ImU32 text_on_box;
  ImU32 text_on_accent;  ///< on accent, mark, live and trouble
  ImU32 grid;
  ImU32 step_line;
  ImU32 lane;  ///< background of a lane
  ImU32 idle_hatch;
  ImU32 tip;  ///< background of a tooltip
  ImU32 critical_path;
  ImU32 mark;
  ImU32 highlight;
  ImU32 accent;
  ImU32 wall_clock;
  ImU32 modelled_clock;
  ImU32 trouble;
  ImU32 live;
  ImU32 loss;
  ImU32 message;
  ImU32 popup;
  ImU32 tip_edge;
  ImU32 button;
  ImU32 button_hovered;
  ImU32 button_active;
  ImU32 step_even;  ///< backgrounds of the steps' numbers
  ImU32 step_odd;
  ImU32 observed;  ///< bars of measured values
  ImU32 forward;
  ImU32 backward;
  ImU32 backward_input;
  ImU32 backward_weight;
  ImU32 recompute;
  ImU32 optimizer;
  ImU32 communication;
  ImU32 step;
  ImU32 kernel;
  // The parts of a step other than compute and the optimizer.
  ImU32 wait;
  ImU32 warm_up;
  ImU32 cool_down;
  ImU32 bubble;  ///< as a whole
  ImU32 other;
  ImU32 ended;
  std::array<ImU32, axis_slot_count> axes;          ///< exposed communication, see axis_slots()
  std::array<ImU32, memory_category_count> memory;  ///< by MemoryCategory
};

/// Colours that tell ranks and groups apart: none of them means a kind of work. Used by all themes.
constexpr std::array<ImU32, 8> group_colours{
    IM_COL32(74, 42, 198, 255),  IM_COL32(245, 211, 125, 255), IM_COL32(48, 118, 36, 255),
    IM_COL32(217, 94, 137, 255), IM_COL32(88, 207, 250, 255),  IM_COL32(142, 51, 118, 255),
    IM_COL32(134, 178, 41, 255), IM_COL32(153, 89, 193, 255)};

constexpr Palette dark_palette{
    .background = IM_COL32(17, 20, 25, 255),
    .panel = IM_COL32(24, 28, 35, 255),
    .panel_edge = IM_COL32(38, 44, 54, 255),
    .text = IM_COL32(222, 228, 236, 255),
    .text_dim = IM_COL32(166, 176, 189, 255),
    .text_faint = IM_COL32(132, 142, 156, 255),
    .text_on_box = IM_COL32(10, 14, 20, 255),
    .text_on_accent = IM_COL32(10, 14, 20, 255),
    .grid = IM_COL32(255, 255, 255, 14),
    .step_line = IM_COL32(255, 255, 255, 60),
    .lane = IM_COL32(29, 33, 41, 255),
    .idle_hatch = IM_COL32(255, 255, 255, 20),
    .tip = IM_COL32(32, 37, 46, 255),
    .critical_path = IM_COL32(255, 110, 200, 255),
    .mark = IM_COL32(120, 220, 190, 255),
    .highlight = IM_COL32(255, 255, 255, 235),
    .accent = IM_COL32(94, 164, 238, 255),
    .wall_clock = IM_COL32(126, 200, 130, 255),
    .modelled_clock = IM_COL32(232, 178, 80, 255),
    .trouble = IM_COL32(240, 118, 110, 255),
    .live = IM_COL32(102, 210, 130, 255),
    .loss = IM_COL32(240, 240, 245, 255),
    .message = IM_COL32(240, 200, 120, 150),
    .popup = IM_COL32(32, 37, 46, 250),
    .tip_edge = IM_COL32(70, 80, 96, 255),
    .button = IM_COL32(38, 44, 54, 255),
    .button_hovered = IM_COL32(52, 60, 74, 255),
    .button_active = IM_COL32(62, 72, 90, 255),
    .step_even = IM_COL32(44, 50, 62, 255),
    .step_odd = IM_COL32(36, 41, 51, 255),
    .observed = IM_COL32(222, 228, 236, 255),
    .forward = IM_COL32(74, 138, 220, 255),
    .backward = IM_COL32(64, 184, 160, 255),
    .backward_input = IM_COL32(64, 184, 160, 255),
    .backward_weight = IM_COL32(176, 214, 120, 255),
    .recompute = IM_COL32(138, 176, 226, 255),
    .optimizer = IM_COL32(156, 98, 246, 255),
    .communication = IM_COL32(226, 162, 58, 255),
    .step = IM_COL32(70, 78, 92, 255),
    .kernel = IM_COL32(122, 138, 160, 255),
    .wait = IM_COL32(112, 132, 140, 255),
    .warm_up = IM_COL32(80, 88, 180, 255),
    .cool_down = IM_COL32(164, 140, 222, 255),
    .bubble = IM_COL32(128, 140, 150, 255),
    .other = IM_COL32(80, 84, 92, 255),
    .ended = IM_COL32(52, 58, 70, 255),
    .axes = {IM_COL32(226, 162, 58, 255), IM_COL32(214, 96, 60, 255), IM_COL32(250, 224, 150, 255),
             IM_COL32(175, 143, 119, 255), IM_COL32(158, 206, 158, 255)},
    .memory = {IM_COL32(92, 104, 128, 255), IM_COL32(64, 150, 134, 255),
               IM_COL32(186, 156, 228, 255), IM_COL32(74, 138, 220, 255),
               IM_COL32(226, 162, 58, 255)}};

constexpr Palette light_palette{
    .background = IM_COL32(246, 247, 249, 255),
    .panel = IM_COL32(255, 255, 255, 255),
    .panel_edge = IM_COL32(212, 216, 223, 255),
    .text = IM_COL32(24, 29, 37, 255),
    .text_dim = IM_COL32(72, 82, 96, 255),
    .text_faint = IM_COL32(94, 103, 116, 255),
    .text_on_box = IM_COL32(10, 14, 20, 255),
    .text_on_accent = IM_COL32(255, 255, 255, 255),
    .grid = IM_COL32(0, 0, 0, 18),
    .step_line = IM_COL32(0, 0, 0, 70),
    .lane = IM_COL32(231, 234, 239, 255),
    .idle_hatch = IM_COL32(0, 0, 0, 22),
    .tip = IM_COL32(255, 255, 255, 255),
    .critical_path = IM_COL32(206, 24, 136, 255),
    .mark = IM_COL32(0, 112, 88, 255),
    .highlight = IM_COL32(12, 16, 24, 235),
    .accent = IM_COL32(20, 100, 190, 255),
    .wall_clock = IM_COL32(20, 110, 50, 255),
    .modelled_clock = IM_COL32(140, 88, 0, 255),
    .trouble = IM_COL32(180, 36, 34, 255),
    .live = IM_COL32(20, 116, 56, 255),
    .loss = IM_COL32(40, 46, 58, 255),
    .message = IM_COL32(150, 100, 0, 170),
    .popup = IM_COL32(255, 255, 255, 250),
    .tip_edge = IM_COL32(176, 183, 194, 255),
    .button = IM_COL32(226, 230, 236, 255),
    .button_hovered = IM_COL32(212, 217, 225, 255),
    .button_active = IM_COL32(196, 203, 214, 255),
    .step_even = IM_COL32(218, 223, 231, 255),
    .step_odd = IM_COL32(228, 232, 238, 255),
    .observed = IM_COL32(60, 68, 82, 255),
    .forward = IM_COL32(74, 138, 220, 255),
    .backward = IM_COL32(64, 184, 160, 255),
    .backward_input = IM_COL32(64, 184, 160, 255),
    .backward_weight = IM_COL32(176, 214, 120, 255),
    .recompute = IM_COL32(138, 176, 226, 255),
    .optimizer = IM_COL32(156, 98, 246, 255),
    .communication = IM_COL32(226, 162, 58, 255),
    .step = IM_COL32(190, 197, 208, 255),
    .kernel = IM_COL32(148, 162, 182, 255),
    .wait = IM_COL32(88, 108, 112, 255),
    .warm_up = IM_COL32(84, 90, 186, 255),
    .cool_down = IM_COL32(196, 130, 222, 255),
    .bubble = IM_COL32(176, 186, 196, 255),
    .other = IM_COL32(140, 142, 146, 255),
    .ended = IM_COL32(214, 218, 225, 255),
    .axes = {IM_COL32(226, 162, 58, 255), IM_COL32(214, 96, 60, 255), IM_COL32(208, 208, 40, 255),
             IM_COL32(175, 143, 119, 255), IM_COL32(158, 206, 158, 255)},
    .memory = {IM_COL32(92, 104, 128, 255), IM_COL32(64, 150, 134, 255),
               IM_COL32(186, 156, 228, 255), IM_COL32(74, 138, 220, 255),
               IM_COL32(226, 162, 58, 255)}};

/// The palette in use. Views read it through the names below.
inline Palette palette = dark_palette;
namespace colours {
inline const ImU32& background = palette.background;
inline const ImU32& panel = palette.panel;
inline const ImU32& panel_edge = palette.panel_edge;
inline const ImU32& text = palette.text;
inline const ImU32& text_dim = palette.text_dim;
inline const ImU32& text_faint = palette.text_faint;
inline const ImU32& text_on_box = palette.text_on_box;
inline const ImU32& text_on_accent = palette.text_on_accent;
inline const ImU32& grid = palette.grid;
inline const ImU32& step_line = palette.step_line;
inline const ImU32& lane = palette.lane;
inline const ImU32& idle_hatch = palette.idle_hatch;
inline const ImU32& tip = palette.tip;
inline const ImU32& critical_path = palette.critical_path;
inline const ImU32& mark = palette.mark;
inline const ImU32& highlight = palette.highlight;
inline const ImU32& accent = palette.accent;
inline const ImU32& wall_clock = palette.wall_clock;
inline const ImU32& modelled_clock = palette.modelled_clock;
inline const ImU32& trouble = palette.trouble;
inline const ImU32& live = palette.live;
inline const ImU32& loss = palette.loss;
inline const ImU32& message = palette.message;
inline const ImU32& popup = palette.popup;
inline const ImU32& tip_edge = palette.tip_edge;
inline const ImU32& button = palette.button;
inline const ImU32& button_hovered = palette.button_hovered;
inline const ImU32& button_active = palette.button_active;
inline const ImU32& step_even = palette.step_even;
inline const ImU32& step_odd = palette.step_odd;
inline const ImU32& observed = palette.observed;
inline const ImU32& forward = palette.forward;
inline const ImU32& backward = palette.backward;
inline const ImU32& backward_input = palette.backward_input;
inline const ImU32& backward_weight = palette.backward_weight;
inline const ImU32& recompute = palette.recompute;
inline const ImU32& optimizer = palette.optimizer;
inline const ImU32& communication = palette.communication;
inline const ImU32& step = palette.step;
inline const ImU32& kernel = palette.kernel;
inline const ImU32& wait = palette.wait;
}  // namespace colours

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
      return colours::wait;
    case Category::step:
      return colours::step;
    case Category::kernel:
      return colours::kernel;
    case Category::copy:
      return palette.other;
    case Category::host:
      return colours::step;
  }
  return colours::kernel;
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
