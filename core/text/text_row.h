#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "core/time/interval.h"

namespace lockstep {

/// From times to columns, rounded.
struct TextScale {
  Picoseconds begin = 0, length = 1;
  int columns = 1;
  int least = 0;  ///< columns of the shortest block

  int column(Picoseconds time) const {
    return static_cast<int>(((time - begin) * columns + length / 2) / length);
  }
};

/// The appearance of a block.
struct Ink {
  char fill = '-';          ///< without colour
  const char* colour = "";  ///< ANSI code of its background
};

/// A row of text with time to the right: blocks, and dots for idle time.
class TextRow {
 public:
  TextRow(const TextScale& scale, bool colour)
      : scale_(scale), colour_(colour), cells_(static_cast<std::size_t>(scale.columns)) {}

  /// Adds an activity of a rank as a block. Blocks are added in order of time, and do not overlap.
  /// The label, cut to fit, begins where the block does not wait; a block that only waits shows it,
  /// too. `waits` are drawn as idle time.
  void add(Picoseconds start, Picoseconds end, std::string_view label, Ink ink = {},
           const Intervals& waits = {});
  std::string text() const;

 private:
  /// One column: part of a block, or idle time (`block` 0).
  struct Cell {
    char glyph = '.';
    const char* colour = "\033[2m";
    int block = 0;  ///< adjacent cells of one block share a colour code
  };
  Cell& cell(int column) { return cells_[static_cast<std::size_t>(column)]; }

  TextScale scale_;
  bool colour_;
  std::vector<Cell> cells_;
  int blocks_ = 0;
  int free_ = 0;  ///< the first column after the last block
};

}  // namespace lockstep
