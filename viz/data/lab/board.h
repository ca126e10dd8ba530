#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "viz/data/lab/lab_settings.h"
#include "viz/data/lab/lab_table.h"

namespace lockstep::viz {

/// A move on the board: an action that a rank runs next, or a forward joined with a backward.
struct Move {
  int rank = 0;
  Action action;
  std::optional<Action> joined{};  ///< the backward that starts together with `action`
  bool operator==(const Move&) const = default;
};
/// Names a move in pipeline terms: "F of microbatch 2 on stage 1".
std::string words_of(const Move& move);

/// A schedule that a person builds action by action. Each move appends to its rank's row and starts
/// as early as its inputs and its rank allow. A move is legal once its inputs are on the board. One
/// device could therefore run all the moves in the order in which they were made, and every board
/// can be completed.
class Board {
 public:
  /// Creates an empty board for these settings. `placement` assigns `chunks` stages to each rank
  /// (with Placement::v, always two).
  Board(const LabSettings& settings, Placement placement, int chunks);

  /// Explains in one line and in pipeline terms why a move is illegal; returns "" if it is legal.
  std::string why_not(const Move& move) const;
  /// Returns all legal moves of a rank, without joint ones, in the order in which schedules usually
  /// make them: forwards, backwards, weight gradients, each by microbatch.
  std::vector<Move> legal_moves(int rank) const;

  /// Makes a move and discards the moves that were undone. Returns why_not(); if the move is
  /// illegal, does nothing else.
  std::string play(const Move& move);
  bool can_undo() const { return made_ > 0; }
  bool can_redo() const { return made_ < moves_.size(); }
  void undo();
  void redo();
  void clear();

  /// Clears the board and plays a schedule, which must have the board's placement and size. Throws
  /// ScheduleError for an invalid schedule.
  void replay(const Schedule& schedule);
  /// If `schedule` begins with the moves on the board, plays the moves that come next, at most
  /// `most` of them. Returns how many it played.
  int follow(const Schedule& schedule, int most);

  bool complete() const;
  /// Returns the index of a cell, and the number of cells: one for each microbatch on each stage.
  std::size_t cell(int stage, int microbatch) const {
    return static_cast<std::size_t>(stage) * static_cast<std::size_t>(settings_.microbatches) +
           static_cast<std::size_t>(microbatch);
  }
  std::size_t cells() const { return cells_.size(); }
  /// Returns whether an action is on the board; it must be in range.
  bool has(Op op, int stage, int microbatch) const;
  /// Returns the moves made, except those that were undone.
  std::vector<Move> moves() const { return {moves_.begin(), moves_.begin() + made()}; }
  /// Returns the number of actions on the board.
  std::size_t placed() const { return schedule().action_count(); }

  /// Changes whenever the board does. No two boards have the same, except a board and its copy.
  std::uint64_t version() const { return version_; }
  const LabSettings& settings() const { return settings_; }
  Placement placement() const { return placement_; }
  int chunks() const { return chunks_; }
  /// The actions on the board, and their times.
  const Schedule& schedule() const { return result_.schedule; }
  const LabResult& result() const { return result_; }
  /// Changes the times and the memory limit; the size must stay the same.
  void set_times(const LabSettings& settings);

 private:
  std::ptrdiff_t made() const { return static_cast<std::ptrdiff_t>(made_); }
  std::string why_not(int rank, const Action& action) const;
  void refresh();

  LabSettings settings_;
  Placement placement_;
  int chunks_;
  std::vector<Move> moves_;  ///< undone moves come last
  std::size_t made_ = 0;
  std::vector<std::uint8_t> cells_;  ///< (stages, microbatches): a bit for each Op on the board
  LabResult result_;
  std::uint64_t version_ = 0;
};

/// How a board relates to a registered schedule of the same size and placement.
struct Recognised {
  std::vector<std::string> exactly;  ///< the names of the schedules that it equals
  std::vector<std::string>
      so_far;  ///< the names of the schedules that begin with it, but are longer
};
/// A registered schedule at the board's size and placement.
struct KnownAtSize {
  const KnownSchedule* known = nullptr;
  const LabResult* result = nullptr;
};
/// Returns the rows of a LabTable that have the board's size and placement.
std::vector<KnownAtSize> known_at(const Board& board, const std::vector<LabRow>& rows);

/// Compares the rows action by action, without renumbering microbatches.
Recognised recognise(const Schedule& board, const std::vector<KnownAtSize>& known);
}  // namespace lockstep::viz
