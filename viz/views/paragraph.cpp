#include "viz/views/paragraph.h"

#include <algorithm>

#include "viz/data/selection/rank_mention.h"

namespace lockstep::viz {
namespace {

constexpr float between_lines = 2;
constexpr float between_paragraphs = 2;

ImFont* font_or_small(const Painter& painter, ImFont* font) {
  return font ? font : painter.look().small;
}

/// Removes the first words of a text, as many as fit into a line but at least one, and returns
/// them.
std::string_view take_line(const Painter& painter, std::string_view& words, ImFont* font,
                           float width) {
  std::size_t end = words.size();
  while (painter.text_width(words.substr(0, end), font) > width) {
    const std::size_t space = words.substr(0, end).rfind(' ');
    if (space == std::string_view::npos || space == 0) break;
    end = space;
  }
  const std::string_view line = words.substr(0, end);
  words.remove_prefix(std::min(end + 1, words.size()));
  return line;
}

}  // namespace

float text_with_links(const Painter& painter, float x, float y, std::string_view words,
                      ImU32 colour, ImFont* font, std::optional<int>& link) {
  const float left = x;
  for (const RankMention& part : rank_mentions(words)) {
    const std::string_view text = words.substr(part.begin, part.size);
    if (part.rank < 0) {
      x += painter.text(x, y, text, colour, font);
      continue;
    }
    const float width = painter.text_width(text, font);
    ImGui::PushID(static_cast<int>(y));
    ImGui::PushID(static_cast<int>(x));
    ImGui::SetCursorScreenPos({x, y});
    const bool clicked = ImGui::InvisibleButton("rank", {std::max(width, 1.0f), size_of(font)});
    const bool hovered = ImGui::IsItemHovered();
    ImGui::PopID();
    ImGui::PopID();
    if (clicked) link = part.rank;
    painter.text(x, y, text, hovered ? palette.text : palette.accent, font);
    const float below = y + size_of(font);
    if (hovered) painter.line(x, below, x + width, below, palette.text);
    x += width;
  }
  return x - left;
}

float paragraph(const Painter& painter, const Rect& rect, std::string_view words, ImU32 colour,
                ImFont* font, std::optional<int>* link) {
  font = font_or_small(painter, font);
  words = beginning(words);
  const float height = size_of(font) + painter.px(between_lines);
  float y = rect.top;
  while (!words.empty() && y + height <= rect.bottom) {
    const std::string_view rest = words;
    std::string_view line = take_line(painter, words, font, rect.width());
    const bool last = y + 2 * height > rect.bottom;
    if (last) line = rest;
    const std::string shown = painter.fitted(line, font, rect.width());
    if (link)
      text_with_links(painter, rect.left, y, shown, colour, font, *link);
    else
      painter.text(rect.left, y, shown, colour, font);
    y += height;
  }
  return y;
}

float paragraph_height(const Painter& painter, std::string_view words, float width, ImFont* font) {
  font = font_or_small(painter, font);
  words = beginning(words);
  float lines = 0;
  for (; !words.empty(); ++lines) take_line(painter, words, font, width);
  return lines * (size_of(font) + painter.px(between_lines));
}

float explain(const Painter& painter, const Rect& rect, const std::vector<std::string>& sentences,
              ImU32 first, std::optional<int>* link) {
  Rect rest = rect;
  for (const std::string& sentence : sentences) {
    const ImU32 colour = &sentence == &sentences.front() ? first : palette.text_dim;
    rest.top =
        paragraph(painter, rest, sentence, colour, nullptr, link) + painter.px(between_paragraphs);
  }
  return rest.top;
}

float explanation_height(const Painter& painter, const std::vector<std::string>& sentences,
                         float width) {
  float height = 0;
  for (const std::string& sentence : sentences)
    height += paragraph_height(painter, sentence, width) + painter.px(between_paragraphs);
  return height;
}

}  // namespace lockstep::viz
