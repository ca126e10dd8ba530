#pragma once

#include <atomic>
#include <filesystem>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

namespace lockstep {

/// Streams the trace files of this process's ranks to a viewer. A connection a rank; its first line
/// is the rank's hello (with the token, where the viewer asks for one); the viewer answers `resume
/// N`, and the file is sent from byte N on, as it grows. A viewer that comes late, or stops and
/// comes back, is tried again five times a second and misses nothing; one that refuses is left
/// alone. One thread, which never holds up a rank.
class Streamer {
 public:
  /// `viewer` is HOST:PORT. Throws UsageError if it does not look like that.
  Streamer(const std::string& viewer, std::string token);
  static void check_address(const std::string& viewer);
  ~Streamer();

  /// `hello` is the line to say first, with its newline.
  void add(const std::filesystem::path& file, const std::string& hello);
  /// There is something new in the files.
  void notify();
  /// The files are complete. Returns when the viewer has been sent everything, or has not taken a
  /// byte for `patience_seconds`, or was never there.
  void finish(double patience_seconds = 5);

 private:
  struct Connection;
  void work();

  std::string host_;
  std::string port_;
  std::string token_;
  std::mutex mutex_;
  std::vector<std::unique_ptr<Connection>> connections_;
  std::atomic<bool> complete_{false};
  std::atomic<bool> stop_{false};
  std::atomic<double> patience_seconds_{5};
  bool refusal_told_ = false;
  int wake_[2] = {-1, -1};  ///< a pipe: notify() writes, the thread polls
  std::thread thread_;
};

}  // namespace lockstep
