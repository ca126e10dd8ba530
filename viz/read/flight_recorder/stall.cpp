#include "viz/read/flight_recorder/stall.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <tuple>

#include "viz/read/flight_recorder/group_calls.h"
#include "viz/read/flight_recorder/mismatch.h"
#include "viz/read/flight_recorder/rank_list.h"

namespace lockstep::flight {
namespace {

bool is_queued(const Member& member, const Call& call) {
  return call.pending && !call.started && member.calls->knows_started;
}

/// Returns a note about dumps that end long before the others: an earlier run may have left them in
/// the folder.
std::optional<std::string> note_on_old_dumps(const Job& job) {
  constexpr std::int64_t hour = 3'600'000'000'000, longest = 2 * hour;
  std::vector<std::int64_t> last;  // of each dump
  for (const RankDump& dump : job.dumps) {
    last.push_back(-1);
    for (const Entry& entry : dump.dump.entries)
      last.back() = std::max(last.back(), entry.created_ns);
  }
  const std::int64_t latest = last.empty() ? -1 : std::ranges::max(last);
  std::vector<int> old;
  for (std::size_t i = 0; i < last.size(); ++i)
    if (last[i] > 0 && last[i] < latest - longest) old.push_back(job.dumps[i].rank);
  if (old.empty()) return std::nullopt;
  return fmt::format(
      "By the hosts' clocks, the last call of {} was more than {} hours before that of others: do "
      "all dumps come from one run?",
      rank_words(old), longest / hour);
}

class Analysis {
 public:
  explicit Analysis(const Job& job) : job_(job) {
    for (const RankDump& dump : job.dumps) calls_.push_back(calls_of(dump.dump));
    groups_ = groups_of(job, calls_);
    sorted_ = sort_calls(job, calls_, groups_);
  }

  Stall run() {
    const bool dumps = job_.evidence == Job::Evidence::dump;
    stall_.evidence = dumps ? "dump" : "trace";
    stall_.source =
        fmt::format("{} {}{}", job_.dumps.size(), dumps ? "flight-recorder dump" : "trace",
                    job_.dumps.size() == 1 ? "" : "s");
    stall_.notes = job_.notes;
    if (auto note = note_on_old_dumps(job_)) stall_.notes.push_back(*std::move(note));
    may_lack_members_ = sorted_.unknown_peers;
    for (std::size_t group = 0; group < groups_.all.size(); ++group) {
      examine_collectives(static_cast<int>(group));
      examine_messages(static_cast<int>(group));
    }
    add_ranks();
    find_awaited(stall_);
    return std::move(stall_);
  }

 private:
  void add_ranks() {
    const auto places = places_of(groups_);
    for (const int rank : groups_.ranks) {
      StalledRank row{.rank = rank, .may_lack_members = may_lack_members_.contains(rank)};
      if (const auto place = places.find(rank); place != places.end()) row.place = place->second;
      const auto dump = std::ranges::lower_bound(job_.dumps, rank, {}, &RankDump::rank);
      if (dump == job_.dumps.end() || dump->rank != rank) {
        row.state = StalledRank::State::no_dump;
      } else {
        add_calls(row, static_cast<std::size_t>(dump - job_.dumps.begin()));
      }
      stall_.ranks.push_back(std::move(row));
    }
  }
  void add_calls(StalledRank& row, std::size_t dump) const {
    const std::vector<Call>& calls = calls_[dump].all;
    if (calls.empty()) return;
    const Call& last = calls.back();
    const auto group = groups_.of_dump[dump].find(last.group);
    row.last = fmt::format(
        "{} in {}", last.words(),
        group == groups_.of_dump[dump].end() ? last.group : group_at(group->second).title);
    row.completed = !last.pending;
    if (std::ranges::any_of(calls, &Call::pending)) row.state = StalledRank::State::inside;
  }

  const ProcessGroup& group_at(int index) const {
    return groups_.all[static_cast<std::size_t>(index)];
  }
  GroupCalls& calls_at(int index) { return sorted_.groups[static_cast<std::size_t>(index)]; }

  /// Adds the group's row, and the waits of its members in collectives.
  void examine_collectives(int index) {
    const ProcessGroup& group = group_at(index);
    const std::vector<Member>& members = calls_at(index).members;
    StalledGroup row{.title = group.title,
                     .axis = axis_of(group.description.empty() ? group.name : group.description),
                     .members = group.members};
    std::map<std::int64_t, std::vector<const Member*>> waiting;  // by sequence number
    for (const Member& member : members)
      if (member.pending != nullptr) waiting[member.pending->sequence].push_back(&member);
    if (!waiting.empty()) describe(row, members, waiting.begin()->first);
    stall_.groups.push_back(std::move(row));
    for (const auto& [sequence, ranks] : waiting) add_waits(index, sequence, ranks);
  }

  /// Fills in the part of the row that concerns the collective with this number.
  static void describe(StalledGroup& row, const std::vector<Member>& members,
                       std::int64_t sequence) {
    std::vector<CallOfRank> calls;
    for (const Member& member : members) {
      if (member.calls == nullptr) {
        row.no_dump.push_back(member.rank);
      } else if (member.last < sequence) {
        row.not_called.push_back(member.rank);
      } else if (member.pending != nullptr && member.pending->sequence == sequence) {
        row.waiting.push_back(member.rank);
      } else {
        row.completed.push_back(member.rank);
      }
      if (const auto call = member.collectives.find(sequence); call != member.collectives.end())
        calls.push_back({member.rank, call->second});
    }
    row.calls = same_calls(calls);
    row.operation = calls.front().call->words();
  }

  /// Adds the waits of those members whose first pending collective has this number.
  void add_waits(int group, std::int64_t sequence, const std::vector<const Member*>& waiting) {
    const std::vector<Member>& members = calls_at(group).members;
    StalledGroup all;
    describe(all, members, sequence);
    if (!all.not_called.empty()) return add(group, waiting, all.not_called, WaitKind::not_called);
    if (all.mismatch()) {
      for (const SameCall& each : all.calls) {
        std::vector<const Member*> others;
        for (const Member* member : waiting)
          if (!std::ranges::binary_search(each.ranks, member->rank)) others.push_back(member);
        add(group, others, each.ranks, WaitKind::mismatch);
      }
      return;
    }
    if (!all.no_dump.empty()) return add(group, waiting, all.no_dump, WaitKind::no_dump);
    if (group_at(group).inferred)
      for (const Member* member : waiting) may_lack_members_.insert(member->rank);
    add_waits_for_start(group, sequence, waiting);
  }

  /// All members have called the collective, so those whose devices have started it wait for those
  /// whose devices have not.
  void add_waits_for_start(int group, std::int64_t sequence,
                           const std::vector<const Member*>& waiting) {
    std::vector<int> queued;
    bool started = false;
    for (const Member& member : calls_at(group).members) {
      const auto call = member.collectives.find(sequence);
      if (call == member.collectives.end()) continue;
      if (is_queued(member, *call->second)) {
        queued.push_back(member.rank);
      } else {
        started = started || member.calls->knows_started;
      }
    }
    if (queued.empty() || !started) return;
    std::vector<const Member*> running;
    for (const Member* member : waiting)
      if (!is_queued(*member, *member->pending)) running.push_back(member);
    add(group, running, queued, WaitKind::not_started);
  }

  /// Adds a wait for each set of waiting ranks that differ neither in their operation nor in its
  /// state.
  void add(int group, const std::vector<const Member*>& waiting, const std::vector<int>& to,
           WaitKind kind) {
    std::map<std::tuple<std::string, bool, bool>, std::vector<int>> alike;
    for (const Member* member : waiting) {
      const Call& call = *member->pending;
      alike[{call.words(), call.overlapped, is_queued(*member, call)}].push_back(member->rank);
    }
    for (auto& [key, from] : alike) {
      const auto& [operation, overlapped, queued] = key;
      stall_.waits.push_back({.from = std::move(from),
                              .to = to,
                              .group = group,
                              .operation = operation,
                              .kind = kind,
                              .overlapped = overlapped,
                              .queued = queued});
    }
  }

  /// Adds the waits of pending sends and receives. The first pending sends from one rank to another
  /// are matched with the first pending receives; each of the rest waits for its other side to be
  /// called. (If the other side had completed, this one would have, too.)
  void examine_messages(int group) {
    const GroupCalls& calls = calls_at(group);
    const auto count = [](const Messages& messages, std::pair<int, int> ranks) {
      const auto found = messages.find(ranks);
      return found == messages.end() ? std::size_t{0} : found->second.size();
    };
    for (const auto& [ranks, sends] : calls.sends)
      if (const std::size_t matched = count(calls.receives, ranks); sends.size() > matched)
        add_message(group, ranks.first, ranks.second, *sends[matched]);
    for (const auto& [ranks, receives] : calls.receives)
      if (const std::size_t matched = count(calls.sends, ranks); receives.size() > matched)
        add_message(group, ranks.second, ranks.first, *receives[matched]);
  }
  void add_message(int group, int from, int to, const Call& call) {
    GroupCalls& calls = calls_at(group);
    const bool has_dump = calls.member(to).calls != nullptr;
    stall_.waits.push_back({.from = {from},
                            .to = {to},
                            .group = group,
                            .operation = std::string{call.operation},
                            .is_p2p = true,
                            .kind = has_dump ? WaitKind::not_called : WaitKind::no_dump,
                            .overlapped = call.overlapped,
                            .queued = is_queued(calls.member(from), call)});
  }

  const Job& job_;
  std::vector<Calls> calls_;
  ProcessGroups groups_;
  CallsByGroup sorted_;
  Stall stall_;
  std::set<int> may_lack_members_;
};

}  // namespace

const StalledRank* Stall::find(int rank) const {
  const auto found = std::ranges::lower_bound(ranks, rank, {}, &StalledRank::rank);
  return found == ranks.end() || found->rank != rank ? nullptr : &*found;
}

void find_awaited(Stall& stall) {
  stall.sinks = find_sinks(stall.waits);
  std::set<int> waiting, blocked, awaited, named;
  for (const Wait& wait : stall.waits) {
    waiting.insert(wait.from.begin(), wait.from.end());
    awaited.insert(wait.to.begin(), wait.to.end());
    if (!wait.overlapped) blocked.insert(wait.from.begin(), wait.from.end());
  }
  for (const Sink& sink : stall.sinks) named.insert(sink.ranks.begin(), sink.ranks.end());
  for (StalledRank& rank : stall.ranks) {
    if (!waiting.contains(rank.rank)) continue;
    rank.state = StalledRank::State::waiting;
    if (!blocked.contains(rank.rank) && awaited.contains(rank.rank) && !named.contains(rank.rank))
      stall.unclear.push_back(rank.rank);
  }
}

Stall stall_of(const Job& job) {
  return Analysis{job}.run();
}

}  // namespace lockstep::flight
