#include "viz/read/flight_recorder/group_calls.h"

#include <algorithm>

namespace lockstep::flight {
namespace {

/// Adds a pending send or receive. Returns false if its other side is unknown.
bool add_message(GroupCalls& calls, const ProcessGroup& group, int rank, const Call& call) {
  const int in_group = call.sends ? call.destination : call.source;
  if (in_group < 0 || static_cast<std::size_t>(in_group) >= group.order.size()) return false;
  const int peer = group.order[static_cast<std::size_t>(in_group)];
  if (!std::ranges::binary_search(group.members, peer)) return false;
  if (peer == rank) return true;  // to itself: it waits for nobody
  if (call.sends) {
    calls.sends[{rank, peer}].push_back(&call);
  } else {
    calls.receives[{peer, rank}].push_back(&call);
  }
  return true;
}

void add_collective(Member& member, const Dump& dump, const Call& call) {
  if (call.sequence < 0) return;
  member.collectives.emplace(call.sequence, &call);
  member.last = std::max(member.last, call.sequence);
  if (const auto status = dump.status.find(call.pg_id); status != dump.status.end())
    member.last = std::max(member.last, status->second.enqueued);
  if (call.pending && (member.pending == nullptr || call.sequence < member.pending->sequence))
    member.pending = &call;
}

}  // namespace

Member& GroupCalls::member(int rank) {
  return *std::ranges::lower_bound(members, rank, {}, &Member::rank);
}

CallsByGroup sort_calls(const Job& job, const std::vector<Calls>& calls,
                        const ProcessGroups& groups) {
  CallsByGroup sorted;
  for (const ProcessGroup& group : groups.all) {
    GroupCalls& each = sorted.groups.emplace_back();
    for (const int rank : group.members) each.members.push_back({.rank = rank, .collectives = {}});
  }
  for (std::size_t i = 0; i < job.dumps.size(); ++i) {
    const int rank = job.dumps[i].rank;
    for (const auto& [name, group] : groups.of_dump[i])
      sorted.groups[static_cast<std::size_t>(group)].member(rank).calls = &calls[i];
    for (const Call& call : calls[i].all) {
      const auto found = groups.of_dump[i].find(call.group);
      if (found == groups.of_dump[i].end()) continue;
      const auto group = static_cast<std::size_t>(found->second);
      if (!call.is_p2p) {
        add_collective(sorted.groups[group].member(rank), job.dumps[i].dump, call);
      } else if (call.pending &&
                 !add_message(sorted.groups[group], groups.all[group], rank, call)) {
        sorted.unknown_peers.insert(rank);
      }
    }
  }
  return sorted;
}

}  // namespace lockstep::flight
