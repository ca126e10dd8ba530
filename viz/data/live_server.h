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

/// The address that the viewer listens on.
struct Endpoint {
  std::string host = "127.0.0.1";
  int port = 7077;
};
/// Parses "7078", ":7078", "0.0.0.0:7077" or "[::1]:7077". Throws UsageError.
Endpoint parse_endpoint(const std::string& text);
/// Returns whether the address is reachable only from this machine.
bool is_loopback(const Endpoint& endpoint);

/// Bytes of one rank's trace, in order.
struct Arrival {
  int run = 0;  ///< number of the run, from 1; a new number ends the previous run
  int rank = 0;
  std::string bytes;
};

/// Receives traces: ranks connect, send their trace's first event as a hello, receive the byte
/// offset from which to resume, and stream their file (core/README.md, "The trace"). Runs one
/// thread. If the reader is slow, data waits in the ranks' files. A hello from a new run replaces
/// the old run.
class LiveServer {
 public:
  /// Starts listening. The server's thread calls `wake` when data has arrived. Throws UsageError if
  /// the port is taken, or if there is no token and the address is reachable from other machines.
  LiveServer(const Endpoint& endpoint, std::string token, std::function<void()> wake);
  ~LiveServer();
  LiveServer(const LiveServer&) = delete;
  LiveServer& operator=(const LiveServer&) = delete;

  const Endpoint& endpoint() const { return endpoint_; }  ///< with the actual port if 0 was given
  /// Returns the data received since the last call, in order within each rank.
  std::vector<Arrival> take();
  /// Returns the number of ranks connected now.
  int connected() const { return connected_; }
  /// Returns the number of refused connections: wrong token, invalid hello or an old run.
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
  std::string run_;                     ///< the run being shown
  std::vector<std::string> past_runs_;  ///< reconnecting ranks of these runs are refused
  int run_number_ = 0;
  std::map<int, std::int64_t> received_;  ///< bytes received of each rank's file
  std::atomic<int> connected_{0};
  std::atomic<int> refused_{0};
  std::atomic<bool> stop_{false};
  std::mutex mutex_;
  std::vector<Arrival> queue_;
  std::size_t queued_bytes_ = 0;
  std::thread thread_;
};

}  // namespace lockstep::viz
