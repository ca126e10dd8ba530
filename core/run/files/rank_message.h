#pragma once

#include <optional>
#include <string>
#include <vector>

#include "core/trace/recorder.h"

namespace lockstep {

/// A message from a rank's process to the process that started it. It travels over stderr as one
/// marked line, which run_under_mpirun() extracts.
struct RankMessage {
  enum class Kind {
    location,  ///< the rank runs on `host`; sent once, at the start
    usage_error,
    failure,
    last_operations,   ///< a rank's last operations when the run failed
    already_reported,  ///< rank 0 has failed and explained why, for example because parity failed
    busy,              ///< the rank is computing while others are waiting for it
    trace_warning,     ///< a trace can't be written; the run continues
    trace_ended,       ///< after an interruption, the rank has ended its trace
    ready,             ///< the rank is about to train, and takes save_signal
    interrupted,       ///< an interruption has ended the run, which has saved
  };
  Kind kind = Kind::location;
  int rank = 0;
  std::string host;
  std::string text;  ///< lines; for `last_operations`, the newest line is last

  /// Returns one line with its newline, at most 4096 bytes, so that a pipe accepts it in a single
  /// write. A text that is too long is cut: `last_operations` keeps its end, the other kinds their
  /// beginning.
  std::string to_line() const;
  /// Returns nothing if `line` is not such a line.
  static std::optional<RankMessage> from_line(const std::string& line);
  /// Returns the text to print for the user if no process collects messages.
  std::string shown() const;
};

/// Writes the message to stderr: as a marked line if the parent process collects messages,
/// otherwise as shown().
void write_message(const RankMessage& message);
/// The environment variable that is set in processes whose parent collects messages.
extern const char* const messages_variable;
/// Tells child processes to send messages as marked lines.
void collect_messages();
/// Returns whether the parent process collects this process's messages.
bool messages_are_collected();

/// Returns "  rank 2 on host:" followed by `lines`, indented.
std::string shown_operations(const std::string& who, const std::string& lines);

/// A cause followed by an epilogue such as "; the trace up to then is in ...", which gets its own
/// line if the cause has several lines.
std::string with_epilogue(const std::string& cause, const std::string& epilogue);

/// The number of a rank's operations that are shown.
constexpr int operations_shown = 4;
/// A rank's last operations, one per line, newest last.
std::string last_operations(const Recorder& trace);

/// This host's name, without its domain.
std::string host_name();

}  // namespace lockstep
