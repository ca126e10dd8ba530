#pragma once

#include <sys/types.h>

#include <chrono>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "viz/data/lab/lesson_program.h"

namespace lockstep::viz {

/// A running lesson. It has no terminal, writes its output to a file, and is in a process group of
/// its own. It ends with the viewer: the destructor ends it, and if the viewer is killed, the
/// kernel sends it SIGTERM.
class LessonProcess {
 public:
  /// Starts the lesson with these flags. `output` is replaced. `token`, unless empty, is the
  /// viewer's; the lesson receives it in its environment. Throws RunError if the file can't be
  /// written or the program can't be started.
  LessonProcess(const LessonProgram& program, const std::vector<std::string>& flags,
                std::filesystem::path output, const std::string& token = "");
  /// Ends the lesson as Ctrl-C does, and kills it if it is still there after `grace`.
  ~LessonProcess();
  LessonProcess(const LessonProcess&) = delete;
  LessonProcess& operator=(const LessonProcess&) = delete;

  /// Returns whether it still runs. Returns at once.
  bool running();
  /// Returns the exit code, or 128 + the signal that ended it; nothing while it runs.
  std::optional<int> exit_code();
  /// Does what Ctrl-C does: a lesson with --save ends after the current step and saves, any other
  /// ends at once. A second call ends either.
  void interrupt();
  pid_t id() const { return id_; }
  /// Returns the end of the output, at most this many bytes, without escape sequences.
  std::string output_tail(std::size_t bytes = 4096) const;

  static constexpr std::chrono::milliseconds grace{1500};

 private:
  pid_t id_ = -1;
  std::filesystem::path output_;
  std::optional<int> code_;
};

/// Returns the last line of a text that is not blank.
std::string last_line(const std::string& text);

}  // namespace lockstep::viz
