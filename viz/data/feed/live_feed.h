#pragma once

#include <chrono>
#include <map>
#include <string>

#include "viz/data/feed/live_server.h"
#include "viz/data/feed/memory_limit.h"
#include "viz/read/timeline/reader.h"

namespace lockstep::viz {

/// Feeds data received by a LiveServer into a Timeline, a little per frame, so that a run that
/// arrives all at once does not freeze the window. At the memory limit it takes no more data;
/// further data then waits in the ranks' files. When a new run replaces the old run, the old run's
/// memory is returned to the system.
class LiveFeed {
 public:
  LiveFeed(LiveServer& server, Timeline& timeline, MemoryLimit limit = MemoryLimit{})
      : server_(server), timeline_(timeline), limit_(limit) {}

  struct Progress {
    bool news = false;     ///< whether the timeline has changed
    bool new_run = false;  ///< whether it was cleared because another run began
    bool backlog = false;  ///< whether data remained when the budget ran out
    bool full = false;     ///< whether the memory limit is reached; if so, data may be left unread
  };
  /// Feeds the available data for about `budget`. Settles the timeline.
  Progress pump(std::chrono::microseconds budget);

  std::int64_t malformed() const { return malformed_; }
  const std::string& first_malformed() const { return first_malformed_; }

 private:
  void begin_run(int run);
  void feed(const Arrival& arrival);

  LiveServer& server_;
  Timeline& timeline_;
  MemoryLimit limit_;
  std::map<int, TraceReader> readers_;  ///< by rank
  int run_ = 0;
  std::int64_t malformed_ = 0;
  std::string first_malformed_;
};

}  // namespace lockstep::viz
