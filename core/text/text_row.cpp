#include "core/text/text_row.h"

#include <algorithm>

namespace lockstep {

void TextRow::add(Picoseconds start, Picoseconds end, std::string_view label, Ink ink,
                  const Intervals& waits) {
  const int from = std::min(std::max(scale_.column(start), free_), scale_.columns - scale_.least);
  free_ = std::max(scale_.column(end), from);
  const int to = std::max(free_, from + scale_.least);
  ++blocks_;
  for (int i = from; i < to; ++i) cell(i) = {colour_ ? ' ' : ink.fill, ink.colour, blocks_};
  // Waits are rounded like blocks, so that many short waits get their share of the columns.
  for (const Interval& wait : waits)
    for (int i = std::max(scale_.column(wait.start), from);
         i < std::min(scale_.column(wait.end), to); ++i)
      cell(i) = {};
  int at = from;
  while (at < to && cell(at).block == 0) ++at;
  if (at == to) at = from;
  for (const char letter : label.substr(0, static_cast<std::size_t>(to - at)))
    cell(at++) = {letter, ink.colour, blocks_};
}

std::string TextRow::text() const {
  std::string text;
  for (std::size_t i = 0; i < cells_.size(); ++i) {
    const bool first = i == 0 || cells_[i].block != cells_[i - 1].block;
    const bool last = i + 1 == cells_.size() || cells_[i].block != cells_[i + 1].block;
    if (colour_ && first) text += cells_[i].colour;
    text += cells_[i].glyph;
    if (colour_ && last) text += "\033[0m";
  }
  return text;
}

}  // namespace lockstep
