#pragma once

#include <memory>
#include <unordered_map>

#include "core/comm/shared/shared_network.h"
#include "core/comm/shared/shared_time.h"
#include "core/comm/threads/thread_fabric.h"

namespace lockstep {

/// The modelled time of a run on a cluster with shared links. Time advances when no agent is
/// running, because then nobody can post a message before the network's next event.
///
/// The fabric's lock protects all state. The caller of network(), move_on() and add() holds it;
/// wait_until() and Message::wait() take it, and throw RunError if the run fails.
class ThreadFabric::Time {
 public:
  Time(ThreadFabric& fabric, const Cluster& cluster) : fabric_(fabric), network_(cluster) {}

  SharedNetwork& network() { return network_; }
  /// Advances time until an agent can run, or no event is left.
  void move_on();

  /// Returns once all events before `time` are known.
  void wait_until(int agent, Picoseconds time);

  class Message;
  std::shared_ptr<Message> add(int agent, const Route& route, SharedTime::Known known);

 private:
  ThreadFabric& fabric_;
  SharedNetwork network_;
  /// Messages whose times are not known.
  std::unordered_map<const Message*, std::shared_ptr<Message>> open_;
  std::unordered_map<int, std::unique_ptr<SharedNetwork::Listener>> timers_;  ///< by agent
};

/// One side of a message.
class ThreadFabric::Time::Message final : public SharedTime::Message,
                                          public SharedNetwork::Listener {
 public:
  Message(Time& time, int agent, const Route& route, SharedTime::Known known)
      : time_(time), agent_(agent), route_(route), known_(std::move(known)) {}

  Picoseconds wait() override;
  void left(int, const Passage& passage) override { ends(passage); }
  void arrived(int, const Passage& passage) override { ends(passage); }
  void reached(int) override {}

 private:
  void ends(const Passage& passage);

  Time& time_;
  int agent_;
  Route route_;
  SharedTime::Known known_;
  Picoseconds end_ = -1;
  bool awaited_ = false;
};

}  // namespace lockstep
