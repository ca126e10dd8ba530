#pragma once

#include <chrono>
#include <compare>
#include <condition_variable>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "core/comm/threads/meta_rendezvous.h"
#include "core/comm/threads/wait_graph.h"
#include "core/comm/transport/busy_rank.h"
#include "core/comm/transport/transport.h"

namespace lockstep {

/// Exchanges messages between ranks that are threads of one process. A message is copied once, from
/// the sender's buffer to the receiver's buffer, by whichever side posts second; a receive that
/// combines reads the sender's buffer in place. (With shared links, a send whose receiver has not
/// arrived yet keeps a copy of its data, and a deadlock is detected once no agent runs.) With GPUs,
/// the side that posts second enqueues the copy on its GPU queue. The copy goes from device memory
/// to device memory once both buffers are ready, and no host thread waits for it. Receives combine
/// only if all ranks share one GPU. One lock protects all state, so a deadlock is detected exactly,
/// at the moment it forms.
class ThreadFabric {
 public:
  /// The run fails if an agent has been waiting for `patience_seconds` and none of the ranks that
  /// it is waiting for, directly or through others, has been computing in that time: one of those
  /// ranks must have stalled. If one of them is computing, `notice` receives a line that names it,
  /// at most once per `patience_seconds`.
  explicit ThreadFabric(int ranks, double patience_seconds = 60, Notice notice = {});
  ~ThreadFabric();

  /// Creates one rank's endpoint, which the fabric must outlive. `one_gpu`: all ranks share one
  /// GPU.
  std::unique_ptr<Transport> endpoint(int rank, bool one_gpu = false);

  /// Marks the rank as finished: it will not send or receive again. Ranks that are waiting for this
  /// rank get an error.
  void finish(int rank);
  /// Records that a rank has failed; from then on every wait() throws. Only the first failure is
  /// kept.
  void fail(const std::string& what);
  /// The first failure, or "".
  std::string failure() const;
  /// The deadlock, if that is the first failure.
  std::optional<Deadlock> deadlock() const;

 private:
  friend class ThreadTime;
  friend class ThreadTransport;
  friend class ThreadPending;
  friend class MetaRendezvous;

  class Time;
  struct Message;
  /// Messages with equal keys arrive in order.
  struct MessageKey {
    int source;
    int destination;
    int channel;
    auto operator<=>(const MessageKey&) const = default;
  };
  /// The sends, or the receives, with one key that are posted but not yet matched.
  struct Unmatched {
    std::deque<std::shared_ptr<Message>> sends;
    std::deque<std::shared_ptr<Message>> receives;
    std::deque<std::shared_ptr<Message>>& of(Direction direction) {
      return direction == Direction::send ? sends : receives;
    }
  };
  /// How the fabric wakes an agent's thread.
  struct Sleeper {
    std::condition_variable wake;
    const Message* waits_for = nullptr;
    bool gives_up = false;
  };

  /// The time of a cluster with shared links. Created by the first agent that asks for it.
  Time& time(const Cluster& cluster);
  std::shared_ptr<Message> post(std::shared_ptr<Message> message);
  static void move(const Message& from, const Message& to);
  static void move_on_gpu(GpuQueue& queue, Message& from, Message& to);
  void wait(Message& message);
  /// Sleeps until `over()` returns true. `over` must also check for a failure, because an agent
  /// that times out fails the run.
  void sleep(std::unique_lock<std::mutex>& lock, int agent, const std::function<bool()>& over);
  /// Whether a rank that the agent is waiting for, directly or through others, is computing. The
  /// agent has been waiting for `waited` seconds so far.
  bool is_held_up_by_compute(std::unique_lock<std::mutex>& lock, int agent, double waited);
  /// Blocks until known() returns true, which an advance of the network brings about. Throws
  /// RunError if the run fails or the wait is cancelled.
  void wait_for_time(std::unique_lock<std::mutex>& lock, int agent, const Route& route,
                     const std::function<bool()>& known);
  /// Resumes an agent whose wait is over.
  void released(int agent);
  void stopped_waiting(int agent);
  void withdraw(const std::shared_ptr<Message>& message);
  void complete(Message& message);
  /// Ends the run; `impossible` makes it a UsageError, such as for times that no clock can hold.
  void fail_locked(const std::string& what, bool impossible = false);
  [[noreturn]] void throw_failure() const;
  /// Call this when an agent has stopped running. Moves modelled time if links are shared. Fails
  /// the run if there is a deadlock that involves `agent` (or any deadlock, if `agent` is -1).
  void stopped(int agent = -1);
  void check(const std::optional<Deadlock>& deadlock);
  Sleeper& sleeper(int agent) { return *sleepers_[static_cast<std::size_t>(agent)]; }

  double patience_seconds_;
  double look_seconds_;  ///< interval between a waiting agent's checks
  Notice notice_;
  std::chrono::steady_clock::time_point noticed_{};  ///< time of the last notice
  mutable std::mutex mutex_;
  std::map<MessageKey, Unmatched> unmatched_;
  WaitGraph graph_;
  std::vector<std::optional<BusyRank>> computing_;  ///< by rank
  std::vector<std::unique_ptr<Sleeper>> sleepers_;  ///< by agent
  std::string failure_;
  bool impossible_ = false;           ///< whether the failure is a UsageError
  std::optional<Deadlock> deadlock_;  ///< set if it is the failure
  std::unique_ptr<Time> time_;        ///< null if messages never share a link
  MetaRendezvous rendezvous_{*this};
};

}  // namespace lockstep
