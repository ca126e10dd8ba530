#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <utility>
#include <vector>

#include "viz/read/flight_recorder/calls.h"
#include "viz/read/flight_recorder/groups.h"

namespace lockstep::flight {

/// A member of a process group, and its collectives in the group.
struct Member {
  int rank = 0;
  const Calls* calls = nullptr;                     ///< in all groups; null without a dump
  std::map<std::int64_t, const Call*> collectives;  ///< by sequence number
  std::int64_t last = 0;          ///< the highest sequence number that it has called
  const Call* pending = nullptr;  ///< its first collective that is not completed
};

/// Sends or receives, in the order of their calls, by sender and receiver.
using Messages = std::map<std::pair<int, int>, std::vector<const Call*>>;

/// The calls in one process group.
struct GroupCalls {
  std::vector<Member> members;  ///< by rank, ascending
  Messages sends, receives;     ///< pending

  Member& member(int rank);
};

/// The calls of a job, by process group.
struct CallsByGroup {
  std::vector<GroupCalls> groups;  ///< as in ProcessGroups::all
  /// Ranks with a pending send or receive whose other side is unknown.
  std::set<int> unknown_peers;
};

/// Sorts the calls of job.dumps by group and member. The result refers to them.
CallsByGroup sort_calls(const Job& job, const std::vector<Calls>& calls,
                        const ProcessGroups& groups);

}  // namespace lockstep::flight
