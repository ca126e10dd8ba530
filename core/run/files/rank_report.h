#pragma once

#include <optional>
#include <string>
#include <vector>

#include "core/trace/recorder.h"

namespace lockstep {

/// What a rank that is a process has to say of itself to whoever started it: where it is (once, at
/// the start), that it was asked for something impossible, that it has failed, what it was doing
/// when the run failed, that the run has failed with all said (parity), or that it computes while
/// others wait for it. Its words travel on stderr, as one marked line, which run_under_mpirun()
/// takes out and sorts.
struct RankReport {
  enum class Kind { here, refused, failed, doing, told, busy };
  Kind kind = Kind::here;
  int rank = 0;
  std::string host;
  std::string text;  ///< lines; of `doing` the newest last

  /// One line with its newline; never longer than what a pipe takes at once (4096 bytes): of a text
  /// that is too long the newest, its end, is kept.
  std::string to_line() const;
  /// Nothing, where this is no such line.
  static std::optional<RankReport> from_line(const std::string& line);
  /// For a person, where nobody collects.
  std::string shown() const;
};

/// Says it on stderr: as a marked line where whoever started this process collects, otherwise as
/// shown(). (Of `here`, nothing then.)
void say(const RankReport& report);
/// Tells processes that this one starts that their reports are collected.
void collect_reports();
/// Whether this process's own are.
bool reports_are_collected();

/// "  rank 2 on host:" and its lines, indented.
std::string shown_operations(const std::string& who, const std::string& lines);

/// A cause and what is said after it ("; the trace up to then is in ..."): on a line of its own
/// where the cause has several.
std::string with_epilogue(const std::string& cause, const std::string& epilogue);

/// How many operations of a rank are told.
constexpr int operations_told = 4;
/// What a rank was doing: its last operations, the newest last, a line each.
std::string last_operations(const Recorder& trace);

/// This host's name, without its domain.
std::string host_name();

}  // namespace lockstep
