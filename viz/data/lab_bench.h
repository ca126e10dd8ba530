#pragma once

#include <array>
#include <filesystem>
#include <optional>
#include <string>

#include "viz/data/board.h"
#include "viz/data/lab_table.h"
#include "viz/data/lesson_launcher.h"
#include "viz/data/run_it.h"

namespace lockstep::viz {

/// The state of the lab's screen. Every control changes a part of it, so that tests can read it.
class LabBench {
 public:
  enum class Page { schedules, board, lessons };

  /// Files of runs go to a new folder in `folder`; exported schedules go to `exports`.
  LabBench(const std::filesystem::path& folder, std::filesystem::path exports);

  Page page = Page::schedules;
  LabSettings settings;
  std::string note;  ///< about the settings: how they differ from the run that they come from
  LabTable table;    ///< at `settings`
  /// The names of the two schedules on one axis.
  std::array<std::string, 2> shown{"1F1B", "ZB-H1"};
  RunIt run;

  Placement placement = Placement::loop;  ///< of the next board
  Board board;
  LabTable board_table;        ///< at the board's size
  std::string board_words;     ///< why the last move was illegal, or where the board was written
  bool board_refused = false;  ///< whether they say why a move was illegal
  std::string exported;        ///< the last file

  LessonLauncher launcher;
  bool wants_start = false;  ///< the launcher is to start its lesson, once the viewer listens

  /// Takes over the settings of a run, and compares its schedule with ZB-H1 or, if that is its own,
  /// with 1F1B.
  void take(const LabQuestion& question);
  /// Follows the settings, and takes over what has ended on other threads and in other processes.
  /// Call it once per frame. Returns whether something has changed.
  bool update();
  /// Waits for searches and runs. For pictures.
  void wait();
  /// Returns whether update() will have news.
  bool busy() const;

  /// Returns the rows of the shown schedules; null for one that does not run or is searched.
  const LabRow* row(std::size_t which) const;
  /// Returns the latest end of the shown schedules, which share an axis.
  Picoseconds axis_end() const;

  /// Runs a shown schedule, or the board if it is complete.
  void run_it(const LabResult& result, const LabSettings& of);
  /// Starts a board with the moves of a schedule: a registered one at these settings, by its word,
  /// or one from a CSV file, whose size the settings take over. With ":20" at the end, makes only
  /// the first 20 moves. Throws UsageError if there is no such schedule, or if it is invalid or
  /// larger than the sliders allow.
  void open_board(const std::string& what);
  /// Starts a board of the settings' size.
  void new_board();
  /// Returns whether new_board() would give another size or placement.
  bool board_outdated() const;
  /// Makes a move, or says why not.
  void play(const Move& move);
  /// Writes the board as CSV, in PyTorch's grammar, to a new file. Says in `board_words` where, and
  /// how to run it, or why it can't be written.
  void export_board();

 private:
  std::filesystem::path folder_, exports_;
  int runs_ = 0;
};

/// Returns the settings for the table at a board's size.
LabSettings settings_of_board(const Board& board);

}  // namespace lockstep::viz
