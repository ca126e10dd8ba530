#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <string>

namespace lockstep {

class Stream;

/// A function that receives a one-line message for the user while the run continues.
using Notice = std::function<void(const std::string&)>;

/// Lets an observer poll whether a rank is computing or has stalled. A rank is busy if its own
/// thread is inside a kernel, has launched one since the previous poll, or is sleeping because of
/// --pace.
class BusyRank {
 public:
  /// `compute` is the stream of the rank's own thread. It must outlive this object.
  BusyRank(int rank, const Stream& compute);

  /// Polls once, and returns whether the rank is busy.
  bool is_busy();
  /// Polls once, and returns whether a poll within the last `seconds` found the rank busy.
  bool busy_within(double seconds);
  /// Records that the rank's own thread has stopped waiting for other ranks.
  void stopped_waiting() { waited_until_ = std::chrono::steady_clock::now(); }
  /// Returns whether the rank is sleeping because of --pace; if so, the user needs no notice.
  bool sleeps_for_pace() const;
  /// Returns, for example, "rank 2 has been computing PP:1F0 (attention) for 5.0 s; the others wait
  /// for it".
  std::string notice() const;

 private:
  int rank_;
  const Stream* compute_;
  std::uint64_t launched_;
  std::chrono::steady_clock::time_point busy_{};  ///< last poll that found the rank busy
  std::chrono::steady_clock::time_point waited_until_ = std::chrono::steady_clock::now();
};

}  // namespace lockstep
