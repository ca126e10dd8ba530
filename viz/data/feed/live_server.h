#pragma once

#include <unistd.h>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "viz/data/feed/endpoint.h"

namespace lockstep::viz {

/// Bytes of one rank's trace, in order.
struct Arrival {
  int run = 0;  ///< number of the run, from 1; a new number replaces the run
  int rank = 0;
  std::string bytes;
};

/// The rules of admission: which ranks the viewer accepts, and how many connections without a hello
/// it keeps.
struct Admission {
  std::string token{};  ///< required of every rank, if not empty
  /// Without a token the viewer listens on this machine only, and accepts only this user's ranks,
  /// because another user's ranks could replace the run that is shown.
  uid_t user = ::getuid();
  std::chrono::milliseconds hello_within{5000};  ///< the deadline for a hello, after connecting
  /// The largest number of connections that have not sent a hello yet. Another connection evicts
  /// the oldest one of the peer with the most such connections (a peer is a user of this machine,
  /// or with a token an address). Therefore, a peer cannot keep another peer's ranks out, and idle
  /// connections can't keep out ranks of their own peer, because a rank sends its hello
  /// immediately.
  std::size_t most_strangers = 128;
};

/// Receives traces: ranks connect, send their trace's first event as a hello, receive the byte
/// offset from which to resume, and stream their file (core/trace/README.md). Runs one
/// thread. Buffers `most_buffered` bytes in all, or `piece` bytes per rank if that is more: until
/// the reader takes these bytes, further data waits in the ranks' files. A hello from a new run
/// replaces the old run.
class LiveServer {
 public:
  static constexpr std::size_t piece = 64 * 1024;
  static constexpr std::size_t most_buffered = 4 << 20;

  /// Starts listening. The server's thread calls `wake` when data has arrived. Throws UsageError if
  /// the port is taken, or if there is no token and the address is reachable from other machines.
  LiveServer(const Endpoint& endpoint, Admission admission, std::function<void()> wake);
  ~LiveServer();
  LiveServer(const LiveServer&) = delete;
  LiveServer& operator=(const LiveServer&) = delete;

  const Endpoint& endpoint() const { return endpoint_; }  ///< with the actual port if 0 was given
  /// Returns the number of the run being received; 0 before the first.
  int run() const { return run_number_; }
  /// Takes at most `piece` buffered bytes from one rank; successive calls visit the ranks in turn.
  /// A rank's first arrival may have no bytes: it announces the rank.
  std::optional<Arrival> take();
  /// Returns whether take() would return something.
  bool waiting() const;
  /// Returns the number of ranks connected now.
  int connected() const { return connected_; }
  /// Returns the number of connections refused because of a wrong token or user, an invalid hello,
  /// or an old run, and of those dropped without a hello.
  int refused() const { return refused_; }

  /// Counts the work that the connections have caused so far.
  struct Work {
    int hellos = 0;        ///< parsed; those of other users are refused unread
    int table_passes = 0;  ///< over the kernel's tables of sockets
    int most_waiting = 0;  ///< connections without a hello at the same time
  };
  Work work() const;

 private:
  struct Connection;
  struct Inbox {
    std::deque<std::string> pieces;  ///< each at most `piece` bytes
    std::size_t bytes = 0;
  };
  using Clock = std::chrono::steady_clock;

  void serve();
  void accept_some();
  void identify(std::span<const std::unique_ptr<Connection>> fresh);
  Connection* evictable() const;
  void drop_late_strangers();
  void drop(Connection& connection);
  void read(Connection& connection);
  bool greet(Connection& connection);
  void refuse(Connection& connection, const std::string& why);
  void begin_run(const std::string& run);
  void push(int rank, std::string_view bytes);
  std::size_t room(const Connection& connection) const;

  Endpoint endpoint_;
  const Admission admission_;
  std::function<void()> wake_;
  int listener_ = -1;
  SocketOwners sockets_;
  int wake_pipe_[2] = {-1, -1};  ///< take() and the destructor write to it, the thread polls it
  /// The ranks' come first when a turn begins; strangers are sorted, oldest first.
  std::vector<std::unique_ptr<Connection>> connections_;
  Clock::time_point accept_again_{};      ///< set if accept ran out of descriptors
  std::string run_;                       ///< the run being shown
  std::deque<std::string> past_runs_;     ///< reconnecting ranks of these runs are refused
  std::map<int, std::int64_t> received_;  ///< bytes received of each rank's file
  std::atomic<int> run_number_{0};
  std::atomic<int> connected_{0};
  std::atomic<int> refused_{0};
  std::atomic<int> hellos_{0}, table_passes_{0}, most_waiting_{0};
  std::atomic<bool> stop_{false};
  mutable std::mutex mutex_;      ///< guards inboxes_ and ready_
  std::map<int, Inbox> inboxes_;  ///< by rank, of this run
  std::deque<int> ready_;         ///< the ranks with bytes for take(), in the order it returns them
  std::thread thread_;
};

}  // namespace lockstep::viz
