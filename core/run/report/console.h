#pragma once

#include <string>

namespace lockstep {

/// What is known of the terminal: asked of it, or, for a process under mpirun, told by whoever
/// started it.
struct Console {
  bool terminal = false;  ///< progress may be redrawn, and colour used
  bool colour = false;
  int width = 100;

  static Console detect();
  /// The prefix of a line that is printed while progress may be shown.
  const char* start_of_line() const { return terminal ? "\r\033[K" : ""; }
  /// As environment variables for processes that can't see the terminal themselves.
  void pass_on() const;
};

/// A line that is redrawn in place on a terminal; elsewhere about ten lines in all.
class Progress {
 public:
  Progress(const Console& console, int total, bool quiet)
      : console_(console), total_(total), quiet_(quiet) {}
  ~Progress() { end(); }
  void show(int done, const std::string& text);
  /// Ends the line, so that something else can be printed.
  void end();

 private:
  Console console_;
  int total_;
  bool quiet_;
  bool open_ = false;
};

}  // namespace lockstep
