#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "core/comm/transport/transport.h"

namespace lockstep {

/// Who of a run's agents runs, who waits for whom, and who has nothing to do. Agents are the ranks'
/// own threads and their communication workers. Kept exact under the lock of whoever owns it:
/// whoever satisfies a waiter marks it runnable in the same moment, a queued job makes its worker
/// runnable, and a worker without jobs is passive, as is a rank that has finished.
///
/// A message can come only from an agent of the peer rank, a job only from its worker. So an agent
/// is in a deadlock exactly when nobody whom it waits for, directly or through others, is runnable.
class WaitGraph {
 public:
  /// What an agent waits for: a message's other end,
  struct ForMessage {
    bool sending = false;
    std::int64_t bytes = 0;
    Route route;
  };
  /// the call of a collective by a rank that has not made it (see MetaRendezvous),
  struct ForMember {
    const int* missing;  ///< that rank; it may change while the agent waits
    Route route;
  };
  /// or a worker of its own rank, until that has done so many jobs.
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
  /// Nothing, if the worker has done that many already.
  void waits(int agent, ForJobs what);
  /// The agent runs again: what it waited for has come, or it has given up.
  void runs(int agent);
  void job_queued(int worker);
  /// One job less. Nobody waits meanwhile: it is the rank's own thread that drops. Returns whether
  /// the worker has become passive, which may close a deadlock.
  bool job_dropped(int worker);
  /// Also marks runnable who waited for this job. Returns the same.
  bool job_done(int worker);
  /// The rank's own thread will neither send nor receive again.
  void finished(int rank);

  /// The deadlock that `agent`, who waits, is in: the cycle of who waits for whom, for what, where;
  /// or that somebody waits for a rank which has finished.
  std::optional<std::string> deadlock(int agent) const;
  /// The same for any agent: for the moment in which somebody became passive.
  std::optional<std::string> deadlock() const;
  /// Whether the agent waits.
  bool waits(int agent) const { return is_waiting(at(agent)); }
  /// All running agents that may help `agent`, directly or through others.
  std::vector<int> running_for(int agent) const;
  /// Who holds up an agent that has waited for so long and is in no deadlock: the rank that runs at
  /// the end of who waits for whom.
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
  /// Who may satisfy a waiting agent.
  std::vector<int> may_help(int agent) const;
  /// The one whom it waits for, for the telling.
  int next(int agent) const;
  bool told_by_worker(int agent) const;
  std::string disagreement(int agent, int other) const;
  std::string describe(int agent) const;

  int ranks_;
  std::vector<Agent> agents_;
  std::vector<std::vector<int>> agents_of_;  ///< by rank
};

}  // namespace lockstep
