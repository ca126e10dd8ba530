#include "core/timeline/straggler.h"

#include <functional>
#include <map>
#include <set>
#include <tuple>

#include "core/timeline/visit_band.h"

namespace lockstep {
namespace {

/// What a rank does in the collectives of one name and number.
struct Entry {
  std::optional<Picoseconds> time;  ///< of its first message, or of the collective's span
  std::set<int> peers;              ///< to and from which its messages go
};

/// By rank. Several groups may have a collective of this name and number.
struct Entries {
  int group_size = 0;
  std::map<int, Entry> ranks;
};
using Collective = std::tuple<NameId, int, NameId>;  // group, sequence and operation
using Collectives = std::map<Collective, Entries>;

void add_entries(const RankTimeline& rank, const StepWindow& step, Collectives& all) {
  const Interval window{step.start, step.end};
  for (const auto& lane : rank.lanes) {
    const bool sends = rank.sending_lanes.contains(lane->tid());
    visit_band(*lane, Band::action, window, [&](const TimelineSpan& span) {
      if (span.category != Category::communication || span.step != step.step ||
          span.group_size < 2 || span.sequence < 0)
        return;
      Entries& found = all[{span.group, span.sequence, span.name}];
      found.group_size = span.group_size;
      Entry& entry = found.ranks[rank.rank];
      if (span.peer >= 0) entry.peers.insert(span.peer);
      // A message may arrive before the rank itself has entered.
      if (span.peer >= 0 && !sends) return;
      entry.time = entry.time ? std::min(*entry.time, span.start) : span.start;
    });
  }
}

/// Divides ranks into groups: those that are connected by messages. Without messages, all are one.
std::vector<std::vector<int>> groups_of(const Entries& entries) {
  std::map<int, std::set<int>> linked;
  for (const auto& [rank, entry] : entries.ranks)
    for (const int peer : entry.peers) {
      linked[rank].insert(peer);
      linked[peer].insert(rank);
    }
  std::vector<std::vector<int>> groups;
  if (linked.empty()) {
    groups.emplace_back();
    for (const auto& [rank, entry] : entries.ranks) groups.back().push_back(rank);
  }
  std::set<int> taken;
  for (const auto& [first, peers] : linked) {
    if (!taken.insert(first).second) continue;
    std::vector<int> group{first};
    for (std::size_t i = 0; i < group.size(); ++i)
      for (const int peer : linked[group[i]])
        if (taken.insert(peer).second) group.push_back(peer);
    groups.push_back(std::move(group));
  }
  return groups;
}

/// Returns the median; of an even number of values, the lower one.
Picoseconds median(std::vector<Picoseconds> values) {
  const auto middle = values.begin() + (static_cast<std::ptrdiff_t>(values.size()) - 1) / 2;
  std::ranges::nth_element(values, middle);
  return *middle;
}

}  // namespace

std::optional<Straggler> straggler(const Timeline& timeline, int step,
                                   const std::vector<StepParts>& parts) {
  const StepWindow* window = timeline.find_step(step);
  if (!window) return std::nullopt;
  const auto length = static_cast<double>(window->end - window->start);
  Collectives all;
  for (const auto& rank : timeline.ranks()) add_entries(*rank, *window, all);
  std::map<int, Picoseconds> stalls;
  for (std::size_t i = 0; i < parts.size(); ++i)
    stalls[timeline.ranks()[i]->rank] = parts[i].exposed();
  std::optional<Straggler> latest;
  std::vector<int> of_latest;  // the ranks of its group
  for (const auto& [collective, found] : all)
    for (const std::vector<int>& ranks : groups_of(found)) {
      if (static_cast<int>(ranks.size()) != found.group_size) continue;
      std::vector<Picoseconds> times, stalled;
      for (const int rank : ranks) {
        const auto entry = found.ranks.find(rank);
        if (entry == found.ranks.end() || !entry->second.time) break;
        times.push_back(*entry->second.time);
        stalled.push_back(stalls[rank]);
      }
      if (times.size() != ranks.size()) continue;
      // Of the ranks that enter late, the one that waits least: it holds up the others.
      const Picoseconds usual = median(times), usual_stall = median(stalled);
      std::optional<std::size_t> last;
      for (std::size_t i = 0; i < ranks.size(); ++i) {
        if (static_cast<double>(times[i] - usual) < least_late * length || stalled[i] > usual_stall)
          continue;
        if (!last || std::pair{stalled[i], -times[i]} < std::pair{stalled[*last], -times[*last]})
          last = i;
      }
      if (!last || (latest && times[*last] - usual <= latest->late)) continue;
      const auto& [group, sequence, operation] = collective;
      latest = {.rank = ranks[*last],
                .operation = operation,
                .group = group,
                .sequence = sequence,
                .late = times[*last] - usual};
      of_latest = ranks;
    }
  if (!latest) return std::nullopt;
  const std::set<int> group{of_latest.begin(), of_latest.end()};
  std::vector<Picoseconds> computes, waits;
  for (std::size_t i = 0; i < parts.size(); ++i) {
    const int rank = timeline.ranks()[i]->rank;
    if (!group.contains(rank)) continue;
    computes.push_back(parts[i].compute);
    waits.push_back(parts[i].late_peer);
    if (rank == latest->rank) latest->compute = parts[i].compute;
  }
  if (computes.empty()) return latest;
  latest->median_compute = median(computes);
  latest->others_wait = median(waits);
  return latest;
}

}  // namespace lockstep
