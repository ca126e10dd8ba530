#pragma once

#include <chrono>
#include <cstdint>
#include <string>
#include <string_view>
#include <unordered_map>

#include "core/trace/reader.h"
#include "viz/data/live_feed.h"

namespace lockstep::viz {

/// Brings a trace that comes through a pipe into a Timeline, as it comes: lines of any ranks in any
/// order, or what `tail -n +1 -f rank*.json` makes of files that grow. tail says "==> FILE <=="
/// where it turns to another file, and may do so in the middle of a line, which goes on when it
/// returns to that file.
class InputFeed {
 public:
  /// Reads from `descriptor`, which stays the caller's.
  InputFeed(int descriptor, Timeline& timeline);

  /// Takes what has come, for about `budget`, and waits for nothing. The timeline is settled
  /// afterwards.
  LiveFeed::Progress pump(std::chrono::microseconds budget);
  /// The pipe's other end is closed, and all that came is taken.
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
  TraceReader reader_;
  std::string text_;  ///< of the line that has no end yet
  /// A line that ended within an event. Whether it is a broken one or one that tail has cut is
  /// known when the next one begins.
  std::string held_;
  bool holds_ = false;
  std::string file_;                                  ///< that tail is in
  std::unordered_map<std::string, std::string> cut_;  ///< by file, the line it was left in
  bool ended_ = false;
};

}  // namespace lockstep::viz
