#pragma once

#include <chrono>
#include <deque>
#include <map>
#include <string>

#include "core/trace/reader.h"
#include "viz/data/live_server.h"

namespace lockstep::viz {

/// Brings what a LiveServer receives into a Timeline, a little in every frame, so that a run that
/// comes all at once does not freeze the window.
class LiveFeed {
 public:
  LiveFeed(LiveServer& server, Timeline& timeline) : server_(server), timeline_(timeline) {}

  struct Progress {
    bool news = false;     ///< the timeline has changed
    bool new_run = false;  ///< it was cleared, another run begins
    bool backlog = false;  ///< more is waiting than the budget allowed
  };
  /// Takes what has come, for about `budget`. The timeline is settled afterwards.
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
