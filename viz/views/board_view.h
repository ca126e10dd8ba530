#pragma once

#include <optional>
#include <vector>

#include "viz/data/lab/lab_bench.h"
#include "viz/views/draw.h"

namespace lockstep::viz {

/// The board on which the user builds a schedule by hand: the schedule so far and, for each rank,
/// all of its actions, the legal ones filled. A click makes a move; hovering over an action that is
/// not legal shows why.
class BoardView {
 public:
  void draw(const Painter& painter, const Rect& rect, LabBench& lab);

  /// Returns the place of an action's cell on the screen, as last drawn, for tests.
  std::optional<Rect> cell_of(const Action& action) const;
  /// Returns whether an action of this board was last drawn as legal, for tests.
  bool drawn_legal(const Board& board, const Action& action) const {
    return legal_.at(index_of(board, action));
  }

 private:
  /// The cells of one rank: a row for each stage and operation, a column for each microbatch.
  struct Block {
    int rank = 0;
    Rect title;
    std::vector<Action> rows;  ///< the first action of each row
    float left = 0, top = 0;   ///< of the first cell
  };

  static std::size_t index_of(const Board& board, const Action& action) {
    return board.cells() * static_cast<std::size_t>(action.op) +
           board.cell(action.stage, action.microbatch);
  }
  /// Draws the buttons, in several lines if necessary. Returns the y below.
  float draw_buttons(const Painter& painter, const Rect& rect, LabBench& lab);
  /// Draws the sentences about the board. Returns the y below.
  float draw_words(const Painter& painter, const Rect& rect, const LabBench& lab) const;
  /// Returns whether the last run was one of this board, as it is now.
  static bool ran(const LabBench& lab);
  void draw_cells(const Painter& painter, const Rect& rect, LabBench& lab);
  void draw_block(const Painter& painter, const Block& block, LabBench& lab);
  void click(LabBench& lab, const Move& move);

  bool joins_ = false;           ///< whether the next two clicks make a joint action
  std::optional<Move> first_{};  ///< the forward of a joint action, already clicked
  std::uint64_t version_ = 0;    ///< the version of the board to which `legal_` belongs
  std::vector<bool> legal_{};    ///< by index_of()
  std::vector<Block> blocks_{};  ///< as last drawn
  float cell_ = 0, row_ = 0;     ///< the width and the height of a cell, as last drawn
};

}  // namespace lockstep::viz
