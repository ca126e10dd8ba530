#include "viz/views/slider.h"

#include <algorithm>
#include <cmath>
#include <utility>

namespace lockstep::viz {
namespace {

constexpr float track_height = 12;
constexpr float knob_radius = 5, mark_height = 5;
constexpr float thickness = 3;
constexpr float words_gap = 6;  // between the label and the value

}  // namespace

float slider_track_height(const Painter& painter) {
  return painter.px(track_height);
}

float slider_height(const Painter& painter) {
  return size_of(painter.look().small) + slider_track_height(painter);
}

Rect slider_range(const Painter& painter, const Rect& track) {
  const float radius = painter.px(knob_radius);
  return {track.left + radius, track.top, track.right - radius, track.bottom};
}

bool slider_track(const Painter& painter, const char* id, const Rect& track, float& position,
                  float origin) {
  const Rect range = slider_range(painter, track);
  if (range.width() <= 0) return false;
  ImGui::SetCursorScreenPos(track.min());
  ImGui::InvisibleButton(id, {track.width(), track.height()});
  const bool active = ImGui::IsItemActive();
  if (active)
    position = std::clamp((ImGui::GetIO().MousePos.x - range.left) / range.width(), 0.0f, 1.0f);
  const float y = (track.top + track.bottom) / 2, width = painter.px(thickness);
  const float from = range.left + origin * range.width();
  const float x = range.left + position * range.width();
  painter.line(track.left, y, track.right, y, palette.button_active, width);
  if (origin > 0 && origin < 1)
    painter.line(from, y - painter.px(mark_height), from, y + painter.px(mark_height),
                 palette.text_faint);
  if (from != x) painter.line(from, y, x, y, palette.accent, width);
  painter.list()->AddCircleFilled({x, y}, painter.px(knob_radius),
                                  active || ImGui::IsItemHovered()
                                      ? mixed(palette.accent, palette.text, 0.3f)
                                      : palette.accent);
  return active;
}

void draw_slider_words(const Painter& painter, const Rect& rect, const SliderWords& words) {
  ImFont* font = painter.look().small;
  const float value =
      painter.text(rect.right, rect.top, painter.fitted(words.value, font, rect.width()),
                   palette.text, font, Align::right);
  const float room = rect.width() - value - painter.px(words_gap);
  painter.text(rect.left, rect.top, painter.fitted(words.label, font, std::max(room, 0.0f)),
               words.emphasised ? palette.text : palette.text_dim, font);
}

bool slider(const Painter& painter, const char* id, const Rect& rect, const SliderWords& words,
            float& position) {
  draw_slider_words(painter, rect, words);
  return slider_track(
      painter, id, {rect.left, rect.bottom - slider_track_height(painter), rect.right, rect.bottom},
      position);
}

bool whole_slider(const Painter& painter, const char* id, const Rect& rect,
                  const SliderWords& words, int& value, int least, int most) {
  const auto steps = static_cast<float>(most - least);
  float position = std::clamp(static_cast<float>(value - least) / steps, 0.0f, 1.0f);
  if (!slider(painter, id, rect, words, position)) return false;
  return std::exchange(value, least + static_cast<int>(std::lround(position * steps))) != value;
}

}  // namespace lockstep::viz
