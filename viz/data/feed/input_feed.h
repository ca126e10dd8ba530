#pragma once

#include <chrono>
#include <cstdint>
#include <string>
#include <string_view>
#include <unordered_map>

#include "viz/data/feed/live_feed.h"
#include "viz/read/timeline/reader.h"

namespace lockstep::viz {

/// Feeds a piped trace into a Timeline as it arrives: lines of any ranks in any order, or the
/// output of `tail -n +1 -f rank*.json` on growing files. tail prints "==> FILE <==" when it
/// switches to another file. This may happen in the middle of a line; the rest of the line follows
/// when tail returns to that file.
class InputFeed {
 public:
  /// Reads from `descriptor`, which the caller still owns. At the memory limit it stops reading, so
  /// that the writer of the pipe waits.
  InputFeed(int descriptor, Timeline& timeline, MemoryLimit limit = MemoryLimit{});

  /// Reads the available input for about `budget` without blocking. Settles the timeline.
  LiveFeed::Progress pump(std::chrono::microseconds budget);
  /// Returns whether the pipe was closed at the other end and everything was read.
  bool ended() const { return ended_; }

  std::int64_t malformed() const { return reader_.malformed(); }
  const std::string& first_malformed() const { return reader_.first_malformed(); }

 private:
  void take(std::string_view bytes);
  void take_line(std::string_view line);
  void turn_to(std::string_view file);
  void release();
  void finish();

  int descriptor_;
  Timeline& timeline_;
  MemoryLimit limit_;
  TraceReader reader_;
  std::string text_;  ///< the current line, not complete yet
  /// A line that ended within an event. The next line shows whether it is malformed or was cut by
  /// tail.
  std::string held_;
  bool holds_ = false;
  std::string file_;                                  ///< the file that tail is printing
  std::unordered_map<std::string, std::string> cut_;  ///< the cut line of each file
  bool ended_ = false;
};

}  // namespace lockstep::viz
