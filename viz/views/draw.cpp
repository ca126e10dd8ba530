#include "viz/views/draw.h"

#include <cmath>

namespace lockstep::viz {
namespace {

constexpr float card_padding = 12;
constexpr float card_rounding = 6;
constexpr float dash_length = 4;
constexpr float tip_gap = 12, tip_line_gap = 4;
constexpr float hatch_share = 0.5f;  // of the colour of idle time's cause

constexpr std::size_t longest_text = 512;  // bytes

const char* end_of(std::string_view text) {
  return text.data() + text.size();
}

}  // namespace

std::string_view beginning(std::string_view text) {
  if (text.size() <= longest_text) return text;
  std::size_t size = longest_text;
  while (size > 0 && (static_cast<unsigned char>(text[size]) & 0xc0) == 0x80) --size;
  return text.substr(0, size);
}

void Painter::hatch(const Rect& rect, ImU32 colour, Hatch lines) const {
  // The texture has lines at 45 degrees, so stretching it turns them.
  const float x = lines.x / hatch_pixels, y = lines.y / hatch_pixels;
  const ImVec2 from{rect.left * x, rect.top * y}, to{rect.right * x, rect.bottom * y};
  list_->AddImage(look_.hatch, rect.min(), rect.max(), from, to, colour);
}

void Painter::idle(const Rect& rect, ImU32 colour, Hatch lines) const {
  idle_fill(rect, colour, 1);
  idle_hatch(rect, colour, 1, lines);
}

void Painter::idle_fill(const Rect& rect, ImU32 colour, float opacity) const {
  fill(rect, faded(mixed(palette.lane, colour, idle_fill_share), opacity));
}

void Painter::idle_hatch(const Rect& rect, ImU32 colour, float opacity, Hatch lines) const {
  hatch(rect, faded(colour, hatch_share * opacity), lines);
}

void Painter::dashes(float x0, float x1, float y, ImU32 colour) const {
  const std::size_t count = whole_number((x1 - x0) / (2 * px(dash_length)) + 1);
  for (std::size_t i = 0; i < count; ++i) {
    const float x = x0 + 2 * px(dash_length) * static_cast<float>(i);
    line(x, y, std::min(x + px(dash_length), x1), y, colour);
  }
}

float Painter::text_width(std::string_view text, ImFont* font) const {
  text = beginning(text);
  if (text.empty()) return 0;  // Dear ImGui would look for the end of a null pointer's text
  return font->CalcTextSizeA(size_of(font), 1e9f, 0, text.data(), end_of(text)).x;
}

std::string Painter::fitted(std::string_view text, ImFont* font, float width) const {
  text = beginning(text);
  if (text_width(text, font) <= width) return std::string{text};
  // Keeps the bytes of a character together.
  const auto cut = [&](std::size_t size) {
    while (size > 0 && (static_cast<unsigned char>(text[size]) & 0xc0) == 0x80) --size;
    return std::string{text.substr(0, size)} + "…";
  };
  std::size_t fits = 0, too_long = text.size();
  while (fits + 1 < too_long) {
    const std::size_t middle = (fits + too_long) / 2;
    (text_width(cut(middle), font) <= width ? fits : too_long) = middle;
  }
  return fits > 0 ? cut(fits) : std::string{};
}

float Painter::text(float x, float y, std::string_view text, ImU32 colour, ImFont* font,
                    Align align) const {
  text = beginning(text);
  if (text.empty()) return 0;
  const float width = text_width(text, font);
  if (align == Align::centre) x -= width / 2;
  if (align == Align::right) x -= width;
  const ImVec2 at{std::floor(x), std::floor(y)};
  list_->AddText(font, size_of(font), at, colour, text.data(), end_of(text));
  if (look_.texts)
    look_.texts->push_back({.min = at,
                            .max = {at.x + width, at.y + size_of(font)},
                            .clip_min = list_->GetClipRectMin(),
                            .clip_max = list_->GetClipRectMax(),
                            .layer = list_,
                            .words = std::string{text}});
  return width;
}

void Painter::label(const Rect& rect, ImVec2 at, std::string_view words, ImU32 ground, ImU32 ink,
                    ImFont* font) const {
  fill(rect, ground, px(3));
  text(at.x, at.y, words, ink, font);
  if (look_.texts && !words.empty()) look_.texts->back().raised = true;
}

bool Painter::text_in(const Rect& rect, std::string_view words, ImU32 colour, ImFont* font) const {
  if (rect.height() < size_of(font) || rect.width() < size_of(font) * 0.6f) return false;
  const float width = text_width(words, font);
  if (width + px(3) > rect.width()) return false;
  text((rect.left + rect.right - width) / 2, (rect.top + rect.bottom - size_of(font)) / 2, words,
       colour, font);
  return true;
}

std::string Painter::clauses_that_fit(std::string_view text, ImFont* font, float width) const {
  text = beginning(text);
  while (text_width(text, font) > width) {
    const std::size_t end = text.rfind("; ");
    if (end == std::string_view::npos) return {};
    text = text.substr(0, end);
  }
  return std::string{text};
}

Rect Painter::card(const Rect& rect, std::string_view title, std::string_view note) const {
  fill(rect, palette.panel, px(card_rounding));
  frame(rect, palette.panel_edge, px(card_rounding));
  const float top = rect.top + px(card_padding) * 0.75f;
  const float width = rect.width() - 2 * px(card_padding);
  const float taken = text(rect.left + px(card_padding), top, fitted(title, look_.bold, width),
                           palette.text, look_.bold);
  const std::string rest = clauses_that_fit(note, look_.small, width - taken - px(card_padding));
  text(rect.right - px(card_padding), top + size_of(look_.bold) - size_of(look_.small), rest,
       palette.text_faint, look_.small, Align::right);
  Rect inside = rect.inset(px(card_padding));
  inside.top = top + size_of(look_.bold) + px(8);
  return inside;
}

float Painter::pill(float x, float y, std::string_view words, ImU32 colour, bool filled) const {
  ImFont* font = look_.small;
  const float width = text_width(words, font) + px(16);
  const Rect rect{x, y, x + width, y + size_of(font) + px(7)};
  fill(rect, filled ? colour : faded(colour, pill_share), rect.height() / 2);
  text(x + px(8), y + px(3), words, filled ? palette.text_on_accent : colour, font);
  return width;
}

void tip(const Painter& painter, const Rect& row, const std::vector<std::string>& lines) {
  if (!row.contains(ImGui::GetIO().MousePos)) return;
  const Painter front{ImGui::GetForegroundDrawList(), painter.look()};
  const Look& look = front.look();
  float width = 0;
  for (const std::string& each : lines) width = std::max(width, front.text_width(each, look.small));
  const float line = size_of(look.small) + front.px(tip_line_gap);
  const float left = std::max(
      0.0f, std::min(row.left, ImGui::GetIO().DisplaySize.x - width - front.px(2 * tip_gap)));
  const float top = row.top - line * static_cast<float>(lines.size()) - front.px(tip_gap);
  const Rect box{left, top, left + width + front.px(2 * tip_gap), row.top - front.px(tip_line_gap)};
  front.fill(box, palette.tip, front.px(4));
  front.frame(box, palette.tip_edge, front.px(4));
  for (std::size_t i = 0; i < lines.size(); ++i)
    front.text(left + front.px(tip_gap),
               top + front.px(tip_line_gap) + line * static_cast<float>(i), lines[i], palette.text,
               look.small);
}

}  // namespace lockstep::viz
