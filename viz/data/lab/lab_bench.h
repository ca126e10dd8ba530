#pragma once

#include <array>
#include <filesystem>
#include <optional>
#include <string>

#include "viz/data/lab/board.h"
#include "viz/data/lab/lab_table.h"
#include "viz/data/lab/lesson_launcher.h"
#include "viz/data/lab/run_it.h"

namespace lockstep::viz {

/// The state of the lab's screen. Every control changes a part of it, so that tests can read it.
class LabBench {
 public:
  enum class Page { schedules, board, lessons };

  /// Files of runs go to a new folder in `folder`; exported schedules go to `exports`.
  LabBench(const std::filesystem::path& folder, std::filesystem::path exports);

  Page page = Page::schedules;
  LabSettings settings;
  std::string note;  ///< how the settings differ from the run that they come from
  LabTable table;    ///< at `settings`
  /// The names of the two schedules on one axis.
  std::array<std::string, 2> shown{"1F1B", "ZB-H1"};
  RunIt run;

  Placement placement = Placement::loop;  ///< of the next board
  Board board;
  LabTable board_table;        ///< at the board's size
  std::string board_words;     ///< why the last move was illegal, or where the board was written
  bool board_refused = false;  ///< whether board_words says why a move was illegal
  std::string exported;        ///< the file exported last

  LessonLauncher launcher;
  bool wants_start = false;  ///< whether the launcher starts its lesson once the viewer listens

  /// Takes over the settings of a run, and compares its schedule with ZB-H1, or with 1F1B if the
  /// run already uses ZB-H1.
  void take(const LabQuestion& question);
  /// Recomputes after a change of the settings, and collects the results of finished threads and
  /// processes. Call it once per frame. Returns whether something has changed.
  bool update();
  /// Waits for searches and runs. For pictures.
  void wait();
  /// Returns whether a later update() may change something.
  bool busy() const;

  /// Returns the rows of the shown schedules; null for one that does not run or is still being
  /// searched.
  const LabRow* row(std::size_t which) const;
  /// Returns the latest end of the shown schedules, which share an axis.
  Picoseconds axis_end() const;

  /// Runs a shown schedule, or the board if it is complete.
  void run_it(const LabResult& result, const LabSettings& of);
  /// Says what run_it() would run, and where it would write files.
  std::string run_it_words(int ranks) const;
  /// Starts a board with the moves of a schedule: a registered one, named as for --schedule, at
  /// these settings; or one from a CSV file, whose size then replaces that of the settings. With
  /// ":20" at the end, makes only the first 20 moves. Throws UsageError if there is no such
  /// schedule, or if it is invalid or larger than the sliders allow.
  void open_board(const std::string& what);
  /// Starts a board of the settings' size.
  void new_board();
  /// Returns whether new_board() would change the board's size or placement; new_board_words() says
  /// how.
  bool board_outdated() const;
  /// Makes a move, or says in `board_words` why it is illegal.
  void play(const Move& move);
  /// Writes the board as CSV, in PyTorch's grammar, to a new file. Says in `board_words` where the
  /// file is and how to run it, or why it can't be written.
  void export_board();

 private:
  std::filesystem::path run_folder(int number) const;

  std::filesystem::path folder_, exports_;
  int runs_ = 0;
};

/// Returns the settings for the table at a board's size.
LabSettings settings_of_board(const Board& board);

}  // namespace lockstep::viz
