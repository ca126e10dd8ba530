#pragma once

#include <string>
#include <vector>

#include "viz/data/lab/board.h"

namespace lockstep::viz {

// The sentences about a board. `rows` are those of a LabTable at settings_of_board().

/// States the aim, with 1F1B at the board's settings as the baseline: "Build a schedule that takes
/// less time than 1F1B: 33.0 ms, bubble 27.3 %." Once the board is complete, says whether it is
/// reached.
struct Aim {
  std::string words;  ///< "" if 1F1B does not run at these settings
  bool reached = false;
};
Aim aim_of(const Board& board, const std::vector<LabRow>& rows);

/// "This is exactly 1F1B.", "GPipe and 1F1B begin like this.", "No registered schedule of this size
/// begins like this." For an empty board, says what to do first.
std::string recognition_words(const Board& board, const Recognised& recognised);
/// States the time, the bubble and the peak memory of the actions on the board; "" if there are
/// none.
std::string figures_words(const Board& board);
/// Counts the actions on an incomplete board, and those that are still to be placed.
std::string progress_words(const Board& board);
/// Compares a complete board with the best registered schedule that has the same number of chunks
/// and stays within the memory limit: "The board takes 3.00 ms longer than ZB-H2, with ...".
std::string comparison_words(const Board& board, const std::vector<LabRow>& rows);

/// If a new board would have another size or placement, says what differs: "The board has 3
/// microbatches. New board: start with 11."
std::string new_board_words(const Board& board, const LabSettings& settings, Placement placement);

}  // namespace lockstep::viz
