#pragma once

#include <string>

namespace lockstep {

/// Properties of the terminal. A process queries the terminal itself or, under mpirun, receives
/// them from the process that started it.
struct Console {
  bool terminal = false;  ///< progress may be redrawn, and colour used
  bool colour = false;
  int width = 100;

  static Console detect();
  /// The prefix of a line that is printed while progress may be shown.
  const char* start_of_line() const { return terminal ? "\r\033[K" : ""; }
  /// Sets environment variables for child processes that cannot see the terminal themselves.
  void pass_on() const;
};

/// A progress line that is redrawn in place on a terminal. Elsewhere, it prints about ten lines in
/// total.
class Progress {
 public:
  Progress(const Console& console, int total, bool quiet)
      : console_(console), total_(total), quiet_(quiet) {}
  ~Progress() { end(); }
  void show(int done, const std::string& text);
  /// Ends the line, so that other text can be printed.
  void end();

 private:
  Console console_;
  int total_;
  bool quiet_;
  bool open_ = false;
};

}  // namespace lockstep
