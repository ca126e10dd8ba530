#include "viz/views/button.h"

#include <algorithm>
#include <vector>

#include "viz/data/step/words.h"

namespace lockstep::viz {
namespace {

constexpr float inside = 10;  // to the left and right of a button's words
constexpr float gap = 8;
constexpr float button_height = 24;
constexpr std::size_t columns_of_tip = 88;

/// Returns the key that a button names first, or all its words if it names none.
std::string key_of(const std::string& words) {
  return words.substr(0, words.find("  "));
}

}  // namespace

void begin_overlay(const char* name, ImVec2 at, ImVec2 size) {
  ImGui::SetNextWindowPos(at);
  ImGui::SetNextWindowSize(size);
  ImGui::Begin(name, nullptr,
               ImGuiWindowFlags_NoDecoration | ImGuiWindowFlags_NoMove |
                   ImGuiWindowFlags_NoSavedSettings | ImGuiWindowFlags_NoNav |
                   ImGuiWindowFlags_NoBackground | ImGuiWindowFlags_NoFocusOnAppearing);
}

float ButtonRow::width_of(const Painter& painter, const std::string& words, bool compact) {
  return painter.text_width(compact ? key_of(words) : words, painter.look().small) +
         painter.px(2 * inside + gap);
}

float ButtonRow::gap_of(const Painter& painter) {
  return painter.px(gap);
}

bool ButtonRow::button(const std::string& words, bool on, const std::string& explanation) {
  const Look& look = painter_.look();
  full_width_ += width_of(painter_, words);
  const std::string shown = compact_ ? key_of(words) : words;
  const std::string tip = shown == words ? explanation
                          : explanation.empty()
                              ? words
                              : words.substr(shown.size() + 2) + ": " + explanation;
  if (line_ > 0 && x_ > rect_.left && x_ + width_of(painter_, shown) > rect_.right) {
    x_ = rect_.left;
    rect_.top += line_;
    rect_.bottom += line_;
  }
  const float middle = (rect_.top + rect_.bottom) / 2;
  const float half = painter_.px(button_height) / 2;
  const Rect rect{x_, middle - half, x_ + width_of(painter_, shown) - painter_.px(gap),
                  middle + half};
  x_ = rect.right + painter_.px(gap);
  ImGui::SetCursorScreenPos(rect.min());
  const bool clicked = ImGui::InvisibleButton(words.c_str(), {rect.width(), rect.height()});
  const bool hovered = ImGui::IsItemHovered();
  const ImU32 colour = on ? palette.accent : palette.button;
  painter_.fill(rect, hovered ? mixed(colour, palette.text, 0.12f) : colour, painter_.px(4));
  painter_.text(rect.left + painter_.px(inside), middle - size_of(look.small) / 2, shown,
                on ? palette.text_on_accent : palette.text, look.small);
  if (hovered && !tip.empty()) draw_tip(rect, tip);
  return clicked;
}

void ButtonRow::draw_tip(const Rect& button, const std::string& tip) const {
  const Painter front{ImGui::GetForegroundDrawList(), painter_.look()};
  ImFont* font = front.look().small;
  const std::vector<std::string> lines = wrapped(tip, columns_of_tip);
  float width = front.px(2 * inside);
  for (const std::string& each : lines)
    width = std::max(width, front.text_width(each, font) + front.px(2 * inside));
  const float line = size_of(font) + front.px(4);
  const float height = line * static_cast<float>(lines.size()) + front.px(4);
  const float left =
      std::max(0.0f, std::min(button.left, ImGui::GetIO().DisplaySize.x - width - front.px(gap)));
  const float above = button.top - front.px(4) - height;
  const float top = tips_above_ && above >= 0 ? above : button.bottom + front.px(4);
  front.fill({left, top, left + width, top + height}, palette.tip, front.px(4));
  float y = top + front.px(4);
  for (const std::string& each : lines) {
    front.text(left + front.px(inside), y, each, palette.text, font);
    y += line;
  }
}

void ButtonRow::text(const std::string& words, ImU32 colour) {
  const Look& look = painter_.look();
  const float y = (rect_.top + rect_.bottom - size_of(look.small)) / 2;
  const float width = painter_.text(x_, y, words, colour, look.small) + painter_.px(gap);
  x_ += width;
  full_width_ += width;
}

Rect ButtonRow::space(float width) {
  const float middle = (rect_.top + rect_.bottom) / 2;
  const float half = painter_.px(button_height) / 2;
  const Rect rect{x_, middle - half, x_ + width, middle + half};
  x_ = rect.right + painter_.px(gap);
  full_width_ += width + painter_.px(gap);
  return rect;
}

}  // namespace lockstep::viz
