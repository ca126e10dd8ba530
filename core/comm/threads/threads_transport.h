#pragma once

#include <chrono>
#include <condition_variable>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <tuple>
#include <vector>

#include "core/comm/threads/meta_rendezvous.h"
#include "core/comm/threads/wait_graph.h"
#include "core/comm/transport/busy_rank.h"
#include "core/comm/transport/transport.h"

namespace lockstep {

/// What ranks that are threads of one process exchange messages through. A message is copied once,
/// from the sender's buffer to the receiver's, by whichever of the two comes second; a receive that
/// combines reads the sender's buffer in place. Where ranks have GPUs it is the second one's lane
/// that copies, from device memory to device memory, once both are ready; receives combine where
/// all ranks share one GPU, and no host waits for any of it. All bookkeeping is under one lock, and
/// so a deadlock is seen exactly, in the moment in which it closes.
class ThreadFabric {
 public:
  /// The run fails if an agent has waited for `patience_seconds` and none of the ranks that it
  /// waits for, directly or through others, has computed in that time: one of them has stalled. If
  /// one of them does compute, `notice` receives a line that says so, at most once in that time.
  explicit ThreadFabric(int ranks, double patience_seconds = 60, Notice notice = {});
  ~ThreadFabric();

  /// One rank's end. The fabric must outlive it. `one_gpu`: all ranks' views are of one GPU.
  std::unique_ptr<Transport> endpoint(int rank, bool one_gpu = false);

  /// The rank is done and will neither send nor receive again; who waits for it is told.
  void finish(int rank);
  /// A rank has failed: everybody's wait() throws from now on. The first failure is kept.
  void fail(const std::string& what);
  /// The first failure, or "".
  std::string failure() const;

 private:
  friend class ThreadTransport;
  friend class ThreadPending;
  friend class MetaRendezvous;

  struct Message;
  struct Queue {
    std::deque<std::shared_ptr<Message>> sends;
    std::deque<std::shared_ptr<Message>> receives;
  };
  /// The thread of an agent, as the fabric wakes it.
  struct Sleeper {
    std::condition_variable wake;
    const Message* waits_for = nullptr;
    bool gives_up = false;
  };

  std::shared_ptr<Message> post(std::shared_ptr<Message> message);
  static void move(const Message& from, const Message& to);
  static void move_on_gpu(GpuLane& lane, Message& from, Message& to);
  void wait(Message& message);
  /// Sleeps until `over()`, which must also look at the failure: an agent that runs out of patience
  /// fails the run.
  void sleep(std::unique_lock<std::mutex>& lock, int agent, const std::function<bool()>& over);
  /// Whether a rank computes that the agent waits for, directly or through others. `waited`: for
  /// how many seconds the agent has waited.
  bool is_held_up_by_compute(std::unique_lock<std::mutex>& lock, int agent, double waited);
  void stopped_waiting(int agent);
  void withdraw(const std::shared_ptr<Message>& message);
  void complete(Message& message);
  void fail_locked(const std::string& what);
  /// Fails the run where somebody is in a deadlock.
  void check(const std::optional<std::string>& deadlock);
  Sleeper& sleeper(int agent) { return *sleepers_[static_cast<std::size_t>(agent)]; }

  double patience_seconds_;
  double look_seconds_;  ///< interval between two looks
  Notice notice_;
  std::chrono::steady_clock::time_point noticed_{};  ///< time of the last notice
  mutable std::mutex mutex_;
  std::map<std::tuple<int, int, int>, Queue> queues_;  ///< by source, destination, channel
  WaitGraph graph_;
  std::vector<std::optional<BusyRank>> computing_;  ///< by rank
  std::vector<std::unique_ptr<Sleeper>> sleepers_;  ///< by agent
  std::string failure_;
  MetaRendezvous rendezvous_{*this};
};

}  // namespace lockstep
