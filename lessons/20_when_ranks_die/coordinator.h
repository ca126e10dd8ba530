#pragma once

#include <cstdint>
#include <exception>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "core/run/rank/rank.h"

namespace lockstep {

/// The ranks that attempt a step together. All members receive the same quorum.
struct Quorum {
  int number = 0;  ///< grows whenever the members, or the connections between them, change
  std::vector<int> members;  ///< ascending
  /// Members without the current state, which they take from the others: they have just started, or
  /// their state is corrupt.
  std::vector<int> behind;
};

/// What a rank that takes no part in a step does in the trace.
inline constexpr Span absent{.name = "absent", .category = Category::wait, .group = "absent"};

/// The outcome of a vote on an attempt.
enum class Vote {
  commit,  ///< every member has the sum: all of them update
  retry,   ///< a member is lost, or its state is corrupt: nobody updates
};

/// Decides, before each attempt at a step, who takes part, and afterwards, whether it counts. One
/// object for all ranks of a process, each of which calls it from its own thread.
class Coordinator {
 public:
  virtual ~Coordinator() = default;
  /// Every rank calls this once, before its first quorum.
  virtual void enter(Rank& /*rank*/) {}
  /// Blocks until all members of the next attempt are known. Throws RunError if it can have none.
  virtual Quorum quorum(Rank& rank, int step) = 0;
  /// A transport between the members of a quorum, and the first of the channels that a Group may
  /// use there. The coordinator must outlive it.
  struct Connection {
    std::unique_ptr<Transport> own;  ///< of this quorum alone; null: the run's
    Transport& transport;
    int channels;
  };
  virtual Connection connect(Rank& rank, const Quorum& quorum) = 0;
  /// A transport between the threads that save checkpoints for the members, whose ranks are their
  /// places in the quorum; null if they can't. The coordinator must outlive it.
  virtual std::unique_ptr<Transport> connect_savers(Rank& rank, const Quorum& quorum) = 0;
  /// Each member votes for the attempt, with a checksum of its state. Blocks until the outcome is
  /// known, which is the same on all members.
  virtual Vote vote(Rank& rank, const Quorum& quorum, std::uint32_t checksum) = 0;
  /// A rank that takes no part in a step blocks until the step is over. On the modelled clock, its
  /// time becomes that of the members.
  virtual void sit_out(Rank& rank, int step) = 0;
  /// Whether this quorum has lost a member, so that its transport is of no further use.
  virtual bool is_broken(const Quorum& quorum) = 0;
  /// Adds a line to what the ranks have survived.
  virtual void note(int /*step*/, const std::string& /*text*/) {}
  /// A rank dies. Its connections break first; then it calls `forget`, which frees its state; only
  /// then do the others go on without it.
  virtual void leave(Rank& rank, const std::function<void()>& forget) = 0;
  /// An exception ends the run on this rank. Nobody waits for it any longer.
  virtual void abandon(Rank& /*rank*/) {}
  /// Blocks until the others have given this rank up.
  virtual void stall(Rank& rank) = 0;
};

/// A library's collectives work only on the run's own transport.
inline Collectives collectives_of(const Rank& rank, const Coordinator::Connection& connection) {
  return connection.own ? Collectives::built_in : rank.endpoint.collectives;
}

/// Ends the waits in the trace that a lost member has cut short. For survivors.
inline void end_waits(Rank& rank) {
  if (rank.gpu) rank.compute.synchronise();  // its copies must not outlive their buffers
  rank.trace.end_abandoned(rank.compute.host_lane(), rank.compute.now());
}

/// A rank's time in the run. An exception that ends it ends the run.
class Presence {
 public:
  Presence(Coordinator& coordinator, Rank& rank) : coordinator_(coordinator), rank_(rank) {
    coordinator.enter(rank);
  }
  ~Presence() {
    if (std::uncaught_exceptions() > 0) coordinator_.abandon(rank_);
  }
  Presence(const Presence&) = delete;
  Presence& operator=(const Presence&) = delete;

 private:
  Coordinator& coordinator_;
  Rank& rank_;
};

}  // namespace lockstep
