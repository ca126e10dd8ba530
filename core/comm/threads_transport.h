#pragma once

#include <condition_variable>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <tuple>
#include <vector>

#include "core/comm/transport.h"

namespace lockstep {

/// What ranks that are threads of one process exchange messages through. A message is copied once,
/// from the sender's buffer to the receiver's, by whichever of the two comes second. All
/// bookkeeping is under one lock, and so a deadlock is seen exactly, in the moment in which it
/// closes: every rank that has not finished is blocked.
class ThreadFabric {
 public:
  explicit ThreadFabric(int ranks);
  ~ThreadFabric();

  /// One rank's end. The fabric must outlive it.
  std::unique_ptr<Transport> endpoint(int rank);

  /// The rank is done and will neither send nor receive again; who waits for it is told.
  void finish(int rank);
  /// A rank has failed: everybody's wait() throws from now on. The first failure is kept.
  void fail(const std::string& what);
  /// The first failure, or "".
  std::string failure() const;

 private:
  friend class ThreadTransport;
  friend class ThreadPending;

  struct Message;
  struct Queue {
    std::deque<std::shared_ptr<Message>> sends;
    std::deque<std::shared_ptr<Message>> receives;
  };
  struct Agent {
    std::condition_variable wake;
    const Message* waits_for = nullptr;  ///< null while it runs
    bool finished = false;
  };

  std::shared_ptr<Message> post(std::shared_ptr<Message> message);
  void wait(int rank, Message& message);
  void withdraw(const std::shared_ptr<Message>& message);
  void complete(Message& message);
  void look_for_deadlock();
  void fail_locked(const std::string& what);
  std::string describe(int rank) const;

  mutable std::mutex mutex_;
  std::map<std::tuple<int, int, int>, Queue> queues_;  ///< by source, destination, channel
  std::vector<std::unique_ptr<Agent>> agents_;
  std::string failure_;
};

}  // namespace lockstep
