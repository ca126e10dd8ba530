#pragma once

#include <chrono>
#include <deque>
#include <map>
#include <string>

#include "core/trace/reader.h"
#include "viz/data/live_server.h"

namespace lockstep::viz {

/// Feeds data received by a LiveServer into a Timeline, a little per frame, so that a run
/// that arrives all at once does not freeze the window.
class LiveFeed {
 public:
  LiveFeed(LiveServer& server, Timeline& timeline) : server_(server), timeline_(timeline) {}

  struct Progress {
    bool news = false;     ///< the timeline has changed
    bool new_run = false;  ///< the timeline was cleared because another run began
    bool backlog = false;  ///< the budget ran out before the data did
  };
  /// Feeds the available data for about `budget`. Settles the timeline.
  Progress pump(std::chrono::microseconds budget);

  std::int64_t malformed() const { return malformed_; }
  const std::string& first_malformed() const { return first_malformed_; }

 private:
  LiveServer& server_;
  Timeline& timeline_;
  std::deque<Arrival> waiting_;
  std::map<int, TraceReader> readers_;  ///< by rank
  int run_ = 0;
  std::int64_t malformed_ = 0;
  std::string first_malformed_;
};

}  // namespace lockstep::viz
