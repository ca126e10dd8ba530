#include "viz/views/button.h"

namespace lockstep::viz {
namespace {

constexpr float inside = 10;  // to the left and right of a button's words
constexpr float gap = 8;
constexpr float button_height = 24;

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
  const float middle = (rect_.top + rect_.bottom) / 2;
  const float half = painter_.px(button_height) / 2;
  const Rect rect{x_, middle - half, x_ + width_of(painter_, shown) - painter_.px(gap),
                  middle + half};
  x_ = rect.right + painter_.px(gap);
  ImGui::SetCursorScreenPos(rect.min());
  const bool clicked = ImGui::InvisibleButton(words.c_str(), {rect.width(), rect.height()});
  const bool hovered = ImGui::IsItemHovered();
  const ImU32 colour = on ? colours::accent : colours::button;
  painter_.fill(rect, hovered ? mixed(colour, colours::text, 0.12f) : colour, painter_.px(4));
  painter_.text(rect.left + painter_.px(inside), middle - size_of(look.small) / 2, shown,
                on ? colours::text_on_accent : colours::text, look.small);
  if (hovered && !tip.empty()) {
    const Painter front{ImGui::GetForegroundDrawList(), look};
    const float width = front.text_width(tip, look.small) + front.px(2 * inside);
    const float left =
        std::max(0.0f, std::min(rect.left, ImGui::GetIO().DisplaySize.x - width - front.px(gap)));
    const Rect box{left, rect.bottom + front.px(4), left + width,
                   rect.bottom + front.px(12) + size_of(look.small)};
    front.fill(box, colours::tip, front.px(4));
    front.text(box.left + front.px(inside), box.top + front.px(4), tip, colours::text, look.small);
  }
  return clicked;
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
