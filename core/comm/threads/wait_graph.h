#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "core/comm/transport/transport.h"

namespace lockstep {

/// Tracks which agents of a run are running, waiting (and for which agent), or idle. Agents are the
/// ranks' own threads and their communication workers. The owner's lock keeps it exact: an agent
/// that satisfies a waiter marks it runnable at the same moment, queueing a job makes its worker
/// runnable, and a worker without jobs is passive, as is a finished rank.
///
/// A message can come only from an agent of the peer rank, a job's result only from its worker. So
/// an agent is deadlocked if and only if no agent that it waits for, directly or through others, is
/// runnable.
class WaitGraph {
 public:
  /// An agent waits for one of three things. The first is a message's other end.
  struct ForMessage {
    bool sending = false;
    std::int64_t bytes = 0;
    Route route;
  };
  /// The second is another rank's call to a collective (see MetaRendezvous).
  struct ForMember {
    const int* missing;  ///< that rank; it may change while the agent waits
    Route route;
  };
  /// The third is a worker of its own rank, until it has done `jobs` jobs.
  struct ForJobs {
    int worker = 0;
    std::int64_t jobs = 0;
    Route why;
  };

  /// Agents 0 .. ranks - 1 are the ranks' own threads.
  explicit WaitGraph(int ranks);
  /// Returns the new agent's number.
  int add_worker(int rank, std::string name);
  int ranks() const { return ranks_; }
  int rank_of(int agent) const { return at(agent).rank; }

  void waits(int agent, ForMessage what);
  void waits(int agent, ForMember what);
  /// Has no effect if the worker has already done that many jobs.
  void waits(int agent, ForJobs what);
  /// Marks the agent as running: its wait was satisfied, or given up.
  void runs(int agent);
  void job_queued(int worker);
  /// Removes one job. No agent is waiting for it, because only the rank's own thread drops jobs.
  /// Returns whether the worker has become passive, which may complete a deadlock.
  bool job_dropped(int worker);
  /// Also marks the agent that waited for this job runnable. Returns the same as job_dropped().
  bool job_done(int worker);
  /// Marks the rank as finished: its own thread sends and receives no more.
  void finished(int rank);

  /// Describes the deadlock that the waiting `agent` is in, if any: the cycle of waits with their
  /// operations and source lines, or a wait for a rank that has finished.
  std::optional<std::string> deadlock(int agent) const;
  /// The same for any agent; call it when an agent becomes passive.
  std::optional<std::string> deadlock() const;
  /// Whether the agent is waiting.
  bool waits(int agent) const { return is_waiting(at(agent)); }
  /// All running agents that may unblock `agent`, directly or through others.
  std::vector<int> running_for(int agent) const;
  /// Describes what holds up an agent that has waited this long without a deadlock: the running
  /// rank at the end of its chain of waits.
  std::string stalled(int agent, double seconds) const;

 private:
  struct Agent {
    int rank = 0;
    std::string name;
    bool is_worker = false;
    bool finished = false;
    std::int64_t queued = 0, done = 0;
    std::variant<std::monostate, ForMessage, ForMember, ForJobs> waits;
  };

  const Agent& at(int agent) const { return agents_[static_cast<std::size_t>(agent)]; }
  Agent& at(int agent) { return agents_[static_cast<std::size_t>(agent)]; }
  bool is_passive(const Agent& agent) const;
  static bool is_waiting(const Agent& agent) { return agent.waits.index() != 0; }
  /// The agents that may unblock a waiting agent.
  std::vector<int> may_help(int agent) const;
  /// The agent that error messages show next in the chain of waits.
  int next(int agent) const;
  bool described_by_worker(int agent) const;
  std::string disagreement(int agent, int other) const;
  std::string describe(int agent) const;

  int ranks_;
  std::vector<Agent> agents_;
  std::vector<std::vector<int>> agents_of_;  ///< by rank
};

}  // namespace lockstep
