#pragma once

#include <atomic>
#include <chrono>
#include <filesystem>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "core/trace/viewer_address.h"

namespace lockstep {

/// Streams the trace files of this process's ranks to a viewer, one connection per rank. The rank
/// sends its hello line (with the token, if there is one), the viewer answers `resume N`, and the
/// rank sends the file from byte N on, as the file grows. If no viewer is listening, if the viewer
/// goes away, or if another program answers, the streamer retries five times per second, and no
/// data is lost. If the viewer refuses the run, the streamer gives up. While the viewer is reading
/// slowly or not at all, the data stays in the file: the streamer buffers at most 256 KiB per rank.
/// Runs one thread and never blocks a rank.
class Streamer {
 public:
  /// `viewer` is HOST:PORT. Throws UsageError if it is malformed.
  Streamer(const std::string& viewer, std::string token);
  static void check_address(const std::string& viewer);
  ~Streamer();

  /// Adds a file. `hello` is the first line to send, including its newline.
  void add(const std::filesystem::path& file, const std::string& hello);
  /// Signals that the files have grown.
  void notify();
  /// Signals that the files are complete. Returns when everything has been sent, or when the viewer
  /// never connected, refused the run, or has read nothing for `patience_seconds`.
  void finish(double patience_seconds = 5);

 private:
  struct Connection;
  void work();

  ViewerAddress viewer_;
  std::string token_;
  std::mutex mutex_;
  std::vector<std::unique_ptr<Connection>> connections_;
  std::atomic<bool> complete_{false};
  std::atomic<bool> stop_{false};
  std::atomic<double> patience_seconds_{5};
  std::atomic<std::chrono::steady_clock::time_point> finish_began_{};
  bool refusal_printed_ = false;
  int wake_[2] = {-1, -1};  ///< a pipe: notify() writes to it, the thread polls it
  std::thread thread_;
};

}  // namespace lockstep
