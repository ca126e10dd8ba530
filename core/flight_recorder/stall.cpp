#include "core/flight_recorder/stall.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <tuple>

#include "core/flight_recorder/mismatch.h"
#include "core/flight_recorder/places.h"
#include "core/flight_recorder/rank_list.h"

namespace lockstep::flight {
namespace {

/// What a rank called in one group.
struct Member {
  int rank = 0;
  const Calls* calls = nullptr;  ///< null without a dump
  std::map<std::int64_t, const Call*> collectives;
  std::int64_t last = 0;          ///< the highest sequence number that it has called
  const Call* pending = nullptr;  ///< its first collective that is not completed
};

bool is_queued(const Member& member, const Call& call) {
  return call.pending && !call.started && member.calls->knows_started;
}

class Analysis {
 public:
  explicit Analysis(const Job& job) : job_(job) {
    for (const RankDump& dump : job.dumps) calls_.push_back(calls_of(dump.dump));
    groups_ = groups_of(job, calls_);
  }

  Stall run() {
    const bool dumps = job_.evidence == Job::Evidence::dump;
    stall_.evidence = dumps ? "dump" : "trace";
    stall_.source =
        fmt::format("{} {}{}", job_.dumps.size(), dumps ? "flight-recorder dump" : "trace",
                    job_.dumps.size() == 1 ? "" : "s");
    stall_.notes = job_.notes;
    note_old_dumps();
    add_ranks();
    collect();
    for (std::size_t group = 0; group < groups_.all.size(); ++group) {
      examine_collectives(static_cast<int>(group));
      examine_messages(static_cast<int>(group));
    }
    for (StalledRank& rank : stall_.ranks)
      rank.may_lack_members = lacks_members_.contains(rank.rank);
    find_awaited(stall_);
    return std::move(stall_);
  }

 private:
  /// Notes dumps that end long before the others: an earlier run may have left them in the folder.
  void note_old_dumps() {
    constexpr std::int64_t hour = 3'600'000'000'000, longest = 2 * hour;
    std::int64_t latest = -1;
    std::vector<std::int64_t> last(job_.dumps.size(), -1);
    for (std::size_t i = 0; i < last.size(); ++i)
      for (const Entry& entry : job_.dumps[i].dump.entries)
        last[i] = std::max(last[i], entry.created_ns);
    for (const std::int64_t each : last) latest = std::max(latest, each);
    std::vector<int> old;
    for (std::size_t i = 0; i < last.size(); ++i)
      if (last[i] > 0 && last[i] < latest - longest) old.push_back(job_.dumps[i].rank);
    if (!old.empty())
      stall_.notes.push_back(fmt::format(
          "By the hosts' clocks, the last call of {} was more than {} hours before that "
          "of others: are all dumps of one run?",
          rank_words(old), longest / hour));
  }

  void add_ranks() {
    std::size_t next = 0;
    const auto places = places_of(groups_);
    for (const int rank : groups_.ranks) {
      StalledRank row{.rank = rank, .last = {}, .place = {}};
      if (const auto place = places.find(rank); place != places.end()) row.place = place->second;
      if (next < job_.dumps.size() && job_.dumps[next].rank == rank) {
        const auto& all = calls_[next].all;
        if (!all.empty()) {
          row.last = fmt::format("{} in {}", all.back().words(), title_of(next, all.back()));
          row.completed = !all.back().pending;
        }
        if (std::ranges::any_of(all, &Call::pending)) row.state = StalledRank::State::inside;
        ++next;
      } else {
        row.state = StalledRank::State::no_dump;
      }
      stall_.ranks.push_back(std::move(row));
    }
  }

  std::optional<int> group_of(std::size_t dump, const Call& call) const {
    const auto found = groups_.of_dump[dump].find(call.group);
    return found == groups_.of_dump[dump].end() ? std::nullopt : std::optional{found->second};
  }
  std::string title_of(std::size_t dump, const Call& call) const {
    const auto group = group_of(dump, call);
    return group ? groups_.all[static_cast<std::size_t>(*group)].title : std::string{call.group};
  }

  /// Sorts the calls by group and member.
  void collect() {
    members_.resize(groups_.all.size());
    sends_.resize(groups_.all.size());
    receives_.resize(groups_.all.size());
    for (std::size_t group = 0; group < groups_.all.size(); ++group)
      for (const int rank : groups_.all[group].members)
        members_[group].push_back({.rank = rank, .collectives = {}});
    for (std::size_t dump = 0; dump < job_.dumps.size(); ++dump) {
      for (const auto& [name, group] : groups_.of_dump[dump])
        member_of(group, job_.dumps[dump].rank).calls = &calls_[dump];
      for (const Call& call : calls_[dump].all) collect(dump, call);
    }
  }
  void collect(std::size_t dump, const Call& call) {
    const auto group = group_of(dump, call);
    if (!group) return;
    const int rank = job_.dumps[dump].rank;
    if (call.is_p2p) {
      if (!call.pending) return;
      const auto& order = groups_.all[static_cast<std::size_t>(*group)].order;
      const auto global = [&](int in_group) {
        return in_group >= 0 && static_cast<std::size_t>(in_group) < order.size()
                   ? order[static_cast<std::size_t>(in_group)]
                   : -1;
      };
      const int peer = global(call.sends ? call.destination : call.source);
      const auto& members = groups_.all[static_cast<std::size_t>(*group)].members;
      const bool known = std::ranges::binary_search(members, peer);
      if (!known) lacks_members_.insert(rank);
      if (!known || peer == rank) return;
      auto& messages = (call.sends ? sends_ : receives_)[static_cast<std::size_t>(*group)];
      messages[call.sends ? std::pair{rank, peer} : std::pair{peer, rank}].push_back(&call);
      return;
    }
    if (call.sequence < 0) return;
    Member& member = member_of(*group, rank);
    member.collectives.emplace(call.sequence, &call);
    member.last = std::max(member.last, call.sequence);
    const auto& status = job_.dumps[dump].dump.status;
    if (const auto known = status.find(call.pg_id); known != status.end())
      member.last = std::max(member.last, known->second.enqueued);
    if (call.pending && (member.pending == nullptr || call.sequence < member.pending->sequence))
      member.pending = &call;
  }

  Member& member_of(int group, int rank) {
    auto& members = members_[static_cast<std::size_t>(group)];
    return *std::ranges::lower_bound(members, rank, {}, &Member::rank);
  }

  /// Adds the group's row, and the waits of its members in collectives.
  void examine_collectives(int index) {
    const auto& members = members_[static_cast<std::size_t>(index)];
    const ProcessGroup& group = groups_.all[static_cast<std::size_t>(index)];
    StalledGroup row{.title = group.title,
                     .axis = axis_of(group.description.empty() ? group.name : group.description),
                     .members = group.members,
                     .inferred = group.inferred};
    std::map<std::int64_t, std::vector<const Member*>> waiting;  // by sequence number
    for (const Member& member : members)
      if (member.pending != nullptr) waiting[member.pending->sequence].push_back(&member);
    if (!waiting.empty()) {
      describe(row, members, waiting.begin()->first);
    } else {
      std::int64_t last = 0;
      const Call* call = nullptr;
      for (const Member& member : members)
        if (!member.collectives.empty() && member.collectives.rbegin()->first > last) {
          last = member.collectives.rbegin()->first;
          call = member.collectives.rbegin()->second;
        }
      if (call != nullptr) row.last = call->words();
    }
    stall_.groups.push_back(std::move(row));
    for (const auto& [sequence, ranks] : waiting) add_waits(index, members, sequence, ranks);
  }

  static void describe(StalledGroup& row, const std::vector<Member>& members,
                       std::int64_t sequence) {
    std::vector<CallOfRank> calls;
    for (const Member& member : members) {
      if (member.calls == nullptr) {
        row.no_dump.push_back(member.rank);
        continue;
      }
      if (member.last < sequence) {
        row.not_called.push_back(member.rank);
      } else if (member.pending != nullptr && member.pending->sequence == sequence) {
        row.waiting.push_back(member.rank);
      } else {
        row.completed.push_back(member.rank);
      }
      if (const auto found = member.collectives.find(sequence); found != member.collectives.end())
        calls.push_back({member.rank, found->second});
      if (const auto before = member.collectives.find(sequence - 1);
          before != member.collectives.end() && row.last.empty())
        row.last = before->second->words();
    }
    row.calls = same_calls(calls);
    row.operation = calls.front().call->words();
  }

  /// Adds the waits of those members whose first pending collective has this number.
  void add_waits(int group, const std::vector<Member>& members, std::int64_t sequence,
                 const std::vector<const Member*>& waiting) {
    std::vector<int> not_called, no_dump, not_started;
    std::vector<CallOfRank> calls;
    bool started = false;
    for (const Member& member : members) {
      if (member.calls == nullptr) {
        no_dump.push_back(member.rank);
        continue;
      }
      if (member.last < sequence) not_called.push_back(member.rank);
      const auto found = member.collectives.find(sequence);
      if (found == member.collectives.end()) continue;
      calls.push_back({member.rank, found->second});
      if (is_queued(member, *found->second)) {
        not_started.push_back(member.rank);
      } else {
        started = started || member.calls->knows_started;
      }
    }
    if (!not_called.empty()) return add(group, waiting, not_called, WaitKind::not_called);
    if (const auto same = same_calls(calls); same.size() > 1) {
      for (const SameCall& each : same) {
        std::vector<const Member*> others;
        for (const Member* member : waiting)
          if (!std::ranges::binary_search(each.ranks, member->rank)) others.push_back(member);
        add(group, others, each.ranks, WaitKind::mismatch);
      }
      return;
    }
    if (!no_dump.empty()) return add(group, waiting, no_dump, WaitKind::no_dump);
    if (groups_.all[static_cast<std::size_t>(group)].inferred)
      for (const Member* member : waiting) lacks_members_.insert(member->rank);
    if (not_started.empty() || !started) return;
    std::vector<const Member*> running;
    for (const Member* member : waiting)
      if (!is_queued(*member, *member->pending)) running.push_back(member);
    add(group, running, not_started, WaitKind::not_started);
  }

  /// Adds a wait for each kind of waiting rank.
  void add(int group, const std::vector<const Member*>& waiting, const std::vector<int>& to,
           WaitKind kind) {
    std::map<std::tuple<std::string, bool, bool>, std::vector<int>> kinds;
    for (const Member* member : waiting) {
      const Call& call = *member->pending;
      kinds[{call.words(), call.overlapped, is_queued(*member, call)}].push_back(member->rank);
    }
    for (auto& [key, from] : kinds) {
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

  using Messages = std::map<std::pair<int, int>, std::vector<const Call*>>;  ///< by ranks

  /// A pending message whose other side is not pending waits for the other rank: had the other side
  /// completed, this one would have, too. The first pending sends from one rank to another are
  /// matched with the first pending receives.
  void examine_messages(int group) {
    const Messages &sends = sends_[static_cast<std::size_t>(group)],
                   &receives = receives_[static_cast<std::size_t>(group)];
    const auto count = [](const Messages& messages, std::pair<int, int> ranks) {
      const auto found = messages.find(ranks);
      return found == messages.end() ? std::size_t{0} : found->second.size();
    };
    for (const auto& [ranks, calls] : sends)
      if (const std::size_t taken = count(receives, ranks); calls.size() > taken)
        add_message(group, ranks.first, ranks.second, *calls[taken], "send to");
    for (const auto& [ranks, calls] : receives)
      if (const std::size_t sent = count(sends, ranks); calls.size() > sent)
        add_message(group, ranks.second, ranks.first, *calls[sent], "recv from");
  }
  void add_message(int group, int from, int to, const Call& call, std::string_view words) {
    const Member &waiting = member_of(group, from), &other = member_of(group, to);
    stall_.waits.push_back(
        {.from = {from},
         .to = {to},
         .group = group,
         .operation = fmt::format("{} rank {}", words, to),
         .kind = other.calls == nullptr ? WaitKind::no_dump : WaitKind::not_called,
         .overlapped = call.overlapped,
         .queued = is_queued(waiting, call)});
  }

  const Job& job_;
  std::vector<Calls> calls_;
  ProcessGroups groups_;
  Stall stall_;
  std::vector<std::vector<Member>> members_;  ///< by group
  std::vector<Messages> sends_, receives_;    ///< pending, by group
  std::set<int> lacks_members_;
};

}  // namespace

const StalledRank* Stall::find(int rank) const {
  const auto found = std::ranges::lower_bound(ranks, rank, {}, &StalledRank::rank);
  return found == ranks.end() || found->rank != rank ? nullptr : &*found;
}

void find_awaited(Stall& stall) {
  stall.sinks = find_sinks(stall.waits);
  std::set<int> waiting, held, awaited, named;
  for (const Wait& wait : stall.waits) {
    waiting.insert(wait.from.begin(), wait.from.end());
    awaited.insert(wait.to.begin(), wait.to.end());
    if (!wait.overlapped) held.insert(wait.from.begin(), wait.from.end());
  }
  for (const Sink& sink : stall.sinks) named.insert(sink.ranks.begin(), sink.ranks.end());
  for (StalledRank& rank : stall.ranks) {
    if (waiting.contains(rank.rank)) rank.state = StalledRank::State::waiting;
    if (waiting.contains(rank.rank) && !held.contains(rank.rank) && awaited.contains(rank.rank) &&
        !named.contains(rank.rank))
      stall.unclear.push_back(rank.rank);
  }
}

Stall stall_of(const Job& job) {
  return Analysis{job}.run();
}

}  // namespace lockstep::flight
