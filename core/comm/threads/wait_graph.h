#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "core/comm/transport/transport.h"

namespace lockstep {

/// A set of agents that cannot continue: they wait for one another, or for a rank that has
/// finished.
struct Deadlock {
  std::string text;           ///< the waits, with their operations and source lines
  int sending = 0;            ///< number of waits for another rank to receive a message
  int receiving = 0;          ///< number of waits for another rank to send one
  bool for_finished = false;  ///< whether the rank that they wait for has finished
};

/// Tracks which agents of a run are running, waiting (and for which agent), or passive. Agents are
/// the ranks' own threads and their communication workers. The caller's lock keeps the graph exact:
/// an agent that satisfies another agent's wait marks the other agent as running at the same
/// moment, a worker counts as running from the moment a job is queued, and workers without jobs and
/// finished ranks are passive.
///
/// A message can come only from an agent of the peer rank, and a job's result can come only from
/// the job's worker. Therefore an agent is deadlocked if and only if none of the agents that it is
/// waiting for, directly or through others, is running.
class WaitGraph {
 public:
  // The things that an agent can wait for.

  /// The other side of a message.
  struct ForMessage {
    bool sending = false;
    std::int64_t bytes = 0;
    Route route;
  };
  /// Another rank's call of the same collective (see MetaRendezvous).
  struct ForMember {
    const int* missing;  ///< the other rank; it may change while the agent waits
    Route route;
  };
  /// A worker of its own rank, until that worker has done `jobs` jobs.
  struct ForJobs {
    int worker = 0;
    std::int64_t jobs = 0;
    Route why;
  };

  /// The time of a message or a collective on a cluster with shared links, which is known once no
  /// agent is running (ThreadFabric::Time). Any running agent may delay it.
  struct ForTime {
    Route route;
  };

  /// Agents 0 .. ranks - 1 are the ranks' own threads.
  explicit WaitGraph(int ranks);
  /// Returns the new agent's number.
  int add_worker(int rank, std::string name);
  int ranks() const { return ranks_; }
  int rank_of(int agent) const { return at(agent).rank; }

  void waits(int agent, ForMessage what);
  void waits(int agent, ForMember what);
  void waits(int agent, ForTime what);
  /// Has no effect if the worker has already done that many jobs.
  void waits(int agent, ForJobs what);
  /// Marks the agent as running, because its wait was satisfied or cancelled.
  void runs(int agent);
  void job_queued(int worker);
  /// Removes one job. No agent waits for that job, because only the rank's own thread drops jobs.
  /// Returns whether the worker has just become passive; if so, a deadlock may now be complete.
  bool job_dropped(int worker);
  /// Counts a job as done, and marks an agent that was waiting for it as running. Returns whether
  /// the worker has become passive.
  bool job_done(int worker);
  /// Marks the rank as finished: its own thread no longer sends or receives.
  void finished(int rank);

  /// Describes the deadlock that involves `agent`, if there is one: the cycle of waits, with their
  /// operations and source lines, or a wait for a rank that has finished.
  std::optional<Deadlock> deadlock(int agent) const;
  /// Describes a deadlock that involves any agent. Call this when an agent becomes passive.
  std::optional<Deadlock> deadlock() const;
  /// Whether any agent is running, that is, neither waiting nor passive.
  bool any_runs() const { return running_ > 0; }
  /// Whether the agent is waiting.
  bool waits(int agent) const { return is_waiting(at(agent)); }
  /// Returns all running agents that may unblock `agent`, directly or through others.
  std::vector<int> running_for(int agent) const;
  /// Names the rank that has stalled: the running rank at the end of `agent`'s chain of waits.
  /// `agent` has waited for `seconds`, and there is no deadlock.
  std::string stalled(int agent, double seconds) const;

 private:
  struct Agent {
    int rank = 0;
    std::string name;
    bool is_worker = false;
    bool finished = false;
    std::int64_t queued = 0, done = 0;
    std::variant<std::monostate, ForMessage, ForMember, ForJobs, ForTime> waits;
  };

  const Agent& at(int agent) const { return agents_[static_cast<std::size_t>(agent)]; }
  Agent& at(int agent) { return agents_[static_cast<std::size_t>(agent)]; }
  bool is_passive(const Agent& agent) const;
  bool runs(const Agent& agent) const { return !is_passive(agent) && !is_waiting(agent); }
  /// Changes an agent, and updates the count of running agents.
  template <class Change>
  void change(int agent, Change&& change) {
    Agent& changed = at(agent);
    running_ -= runs(changed) ? 1 : 0;
    change(changed);
    running_ += runs(changed) ? 1 : 0;
  }
  static bool is_waiting(const Agent& agent) { return agent.waits.index() != 0; }
  /// Returns the agents that may unblock a waiting agent.
  std::vector<int> may_help(int agent) const;
  /// Returns the agent that an error message shows after `agent` in the chain of waits.
  int next(int agent) const;
  bool described_by_worker(int agent) const;
  std::string disagreement(int agent, int other) const;
  std::string describe(int agent) const;
  /// Adds a line of the text, and counts the wait.
  void add_to(Deadlock& deadlock, int agent) const;

  int ranks_;
  int running_;  ///< agents
  std::vector<Agent> agents_;
  std::vector<std::vector<int>> agents_of_;  ///< by rank
};

}  // namespace lockstep
