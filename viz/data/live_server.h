#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

namespace lockstep::viz {

/// Where the viewer listens.
struct Endpoint {
  std::string host = "127.0.0.1";
  int port = 7077;
};
/// "7078", ":7078", "0.0.0.0:7077", "[::1]:7077". Throws UsageError.
Endpoint parse_endpoint(const std::string& text);
/// Reachable from this machine only.
bool is_loopback(const Endpoint& endpoint);

/// Bytes of one rank's trace, as they came.
struct Arrival {
  int run = 0;  ///< counts the runs seen; a new number means that the old run is over
  int rank = 0;
  std::string bytes;
};

/// Receives traces: ranks connect, say hello with their trace's first event, are told from which
/// byte to resume, and stream their file (DESIGN §5). One thread; a reader that is slow only makes
/// ranks' files wait. A hello of a new run replaces the old one.
class LiveServer {
 public:
  /// Listens from here on; `wake` is called from the server's thread when something has come.
  /// Throws UsageError where the port is taken or, without a token, open to others than this
  /// machine.
  LiveServer(const Endpoint& endpoint, std::string token, std::function<void()> wake);
  ~LiveServer();
  LiveServer(const LiveServer&) = delete;
  LiveServer& operator=(const LiveServer&) = delete;

  const Endpoint& endpoint() const { return endpoint_; }  ///< with the port that was given for 0
  /// What has come since the last call, in order within a rank.
  std::vector<Arrival> take();
  /// How many ranks are connected now.
  int connected() const { return connected_; }
  /// Connections that were sent away, for a wrong token or no hello.
  int refused() const { return refused_; }

 private:
  struct Connection;
  void serve();
  void accept_all();
  void read(Connection& connection);
  bool greet(Connection& connection);
  void refuse(Connection& connection, const std::string& why);
  void push(int rank, std::string_view bytes);

  Endpoint endpoint_;
  std::string token_;
  std::function<void()> wake_;
  int listener_ = -1;
  int stop_pipe_[2] = {-1, -1};
  std::vector<std::unique_ptr<Connection>> connections_;
  std::string run_;                     ///< the run that is shown
  std::vector<std::string> past_runs_;  ///< a rank of these that comes back is late
  int run_number_ = 0;
  std::map<int, std::int64_t> received_;  ///< bytes of each rank's file
  std::atomic<int> connected_{0};
  std::atomic<int> refused_{0};
  std::atomic<bool> stop_{false};
  std::mutex mutex_;
  std::vector<Arrival> queue_;
  std::size_t queued_bytes_ = 0;
  std::thread thread_;
};

}  // namespace lockstep::viz
