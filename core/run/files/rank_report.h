#pragma once

#include <optional>
#include <string>
#include <vector>

#include "core/trace/recorder.h"

namespace lockstep {

/// A message from a rank's process to the process that started it: its location (`here`, once, at
/// the start), a usage error (`refused`), a failure (`failed`), its last operations when the run
/// failed (`doing`), a failure that is already explained, such as parity (`told`), or a notice that
/// it computes while others wait for it (`busy`). It travels over stderr as one marked line, which
/// run_under_mpirun() extracts.
struct RankReport {
  enum class Kind { here, refused, failed, doing, told, busy };
  Kind kind = Kind::here;
  int rank = 0;
  std::string host;
  std::string text;  ///< lines; for `doing` the newest last

  /// One line with its newline, at most 4096 bytes, so that a pipe takes it in one write. A text
  /// that is too long is cut: `doing` keeps its end, the other kinds their beginning.
  std::string to_line() const;
  /// Returns nothing if `line` is not such a line.
  static std::optional<RankReport> from_line(const std::string& line);
  /// The text for a person, if no process collects reports.
  std::string shown() const;
};

/// Writes the report to stderr: as a marked line if the parent process collects reports, otherwise
/// as shown(). (In that case, `here` writes nothing.)
void say(const RankReport& report);
/// Tells child processes that their reports are collected.
void collect_reports();
/// Whether this process's own reports are collected.
bool reports_are_collected();

/// "  rank 2 on host:" and its lines, indented.
std::string shown_operations(const std::string& who, const std::string& lines);

/// A cause followed by an epilogue such as "; the trace up to then is in ...", which gets its own
/// line if the cause has several.
std::string with_epilogue(const std::string& cause, const std::string& epilogue);

/// How many of a rank's operations are shown.
constexpr int operations_told = 4;
/// A rank's last operations, one per line, newest last.
std::string last_operations(const Recorder& trace);

/// This host's name, without its domain.
std::string host_name();

}  // namespace lockstep
