#include "viz/read/kineto/matching.h"

#include <algorithm>
#include <array>
#include <limits>
#include <map>
#include <set>
#include <type_traits>
#include <utility>

namespace lockstep::kineto {
namespace {

/// Joins the parts of a key, each followed by a separator.
template <class... Parts>
std::string key_of(const Parts&... parts) {
  std::string key;
  const auto add = [&](const auto& part) {
    if constexpr (std::is_convertible_v<decltype(part), std::string_view>)
      key += std::string_view{part};
    else
      key += std::to_string(part);
    key += '\x1f';
  };
  (add(parts), ...);
  return key;
}

class Matcher {
 public:
  Matcher(const std::vector<RankCalls>& ranks, const std::vector<int>& numbers,
          const std::vector<Trace>& traces)
      : ranks_(ranks), numbers_(numbers) {
    for (const Trace& trace : traces) {
      std::vector<std::set<int>>& groups = groups_.emplace_back();
      for (const ProcessGroup& group : trace.groups)
        groups.emplace_back(group.ranks.begin(), group.ranks.end());
    }
  }

  std::vector<Match> match() {
    for (std::size_t rank = 0; rank < ranks_.size(); ++rank) add_rank(rank);
    std::vector<Match> matches;
    for (auto& [key, match] : found_)
      if (match.kind == CallKind::send)
        match_messages(match, matches);
      else if (match.members.size() >= 2) {
        match.ends_together = synchronizes(match.kind);
        matches.push_back(std::move(match));
      }
    return matches;
  }

 private:
  void add_rank(std::size_t rank) {
    std::map<std::string, int> counts;  // of each key on this rank
    for (std::size_t i = 0; i < ranks_[rank].calls.size(); ++i) {
      const Call& call = ranks_[rank].calls[i];
      MatchedBy by = MatchedBy::order;
      std::string key =
          is_message(call.kind) ? message_key(rank, call, by) : collective_key(call, by);
      if (key.empty()) continue;
      if (by == MatchedBy::order && call.inferred) by = MatchedBy::inferred;
      // A rank may send a message to itself: in a V-shaped placement, it holds two adjacent stages.
      const std::string side = is_message(call.kind) ? key_of(key, name_of(call.kind)) : key;
      key = key_of(key, counts[side]++);
      Match& match = found_[key];
      match.kind = is_message(call.kind) ? CallKind::send : call.kind;
      match.by = by;
      match.members.push_back({rank, i});
    }
  }

  std::string collective_key(const Call& call, MatchedBy& by) const {
    if (!call.comms_id.empty()) {
      by = MatchedBy::comms_id;
      return key_of("id", call.comms_id, name_of(call.kind));
    }
    if (call.members.empty()) return {};
    if (call.sequence >= 0) {
      by = MatchedBy::sequence;
      return key_of("seq", call.members, call.sequence, name_of(call.kind));
    }
    return key_of("order", call.members, name_of(call.kind), call.step);
  }

  /// A message's key contains the action that it belongs to or, without a label, its two ranks.
  std::string message_key(std::size_t rank, const Call& call, MatchedBy& by) const {
    const bool sends = call.kind == CallKind::send;
    if (call.label) {
      by = MatchedBy::label;
      const bool forward = call.label->category == Category::forward;
      const int receiver = sends ? stage_after(call.label->stage, forward) : call.label->stage;
      return key_of("pp", call.step, receiver, forward ? 1 : 0, call.label->microbatch);
    }
    if (call.peer < 0) return {};
    const int self = numbers_[rank];
    return key_of("p2p", sends ? self : call.peer, sends ? call.peer : self, call.step);
  }

  /// Pairs senders and receivers that share a key. If a pipeline has replicas, their messages have
  /// equal keys; then each sender is paired with the receiver in its smallest process group.
  void match_messages(const Match& all, std::vector<Match>& matches) const {
    std::vector<Match::Member> senders, receivers;
    for (const Match::Member& member : all.members)
      (ranks_[member.rank].calls[member.call].kind == CallKind::send ? senders : receivers)
          .push_back(member);
    for (const Match::Member& sender : senders) {
      const Match::Member* receiver = nullptr;
      std::size_t smallest = std::numeric_limits<std::size_t>::max();
      bool unique = false;
      for (const Match::Member& each : receivers) {
        if (contradict(sender, each)) continue;
        const std::size_t shared =
            senders.size() == 1 && receivers.size() == 1 ? 0 : shared_group(sender, each);
        unique = shared < smallest || (unique && shared != smallest);
        if (shared >= smallest) continue;
        smallest = shared;
        receiver = &each;
      }
      if (receiver && unique)
        matches.push_back({CallKind::send,
                           all.by,
                           is_kernel(sender) && is_kernel(*receiver),
                           {sender, *receiver}});
    }
  }

  /// Returns whether either of two kernels names a rank other than the other's. (Calls on the host
  /// number their peers within a group that they do not name, so they contradict nothing.)
  bool contradict(const Match::Member& a, const Match::Member& b) const {
    const auto names = [&](const Match::Member& one, const Match::Member& other) {
      const int peer = ranks_[one.rank].calls[one.call].peer;
      return !is_kernel(one) || peer < 0 || peer == numbers_[other.rank];
    };
    return !names(a, b) || !names(b, a);
  }

  bool is_kernel(const Match::Member& member) const {
    return ranks_[member.rank].calls[member.call].kernel;
  }

  /// Returns the size of the smallest process group that contains both ranks.
  std::size_t shared_group(const Match::Member& a, const Match::Member& b) const {
    std::size_t smallest = std::numeric_limits<std::size_t>::max() - 1;
    for (const std::set<int>& group : groups_[a.rank])
      if (group.contains(numbers_[a.rank]) && group.contains(numbers_[b.rank]))
        smallest = std::min(smallest, group.size());
    return smallest;
  }

  const std::vector<RankCalls>& ranks_;
  const std::vector<int>& numbers_;
  std::vector<std::vector<std::set<int>>> groups_;  ///< by trace
  std::map<std::string, Match> found_;
};

}  // namespace

const char* name_of(MatchedBy by) {
  constexpr std::array names = {"Comms Id", "group and Seq", "pipeline labels", "order",
                                "order in inferred groups"};
  return names[static_cast<std::size_t>(by)];
}

std::vector<Match> match_calls(const std::vector<RankCalls>& ranks, const std::vector<int>& numbers,
                               const std::vector<Trace>& traces) {
  return Matcher{ranks, numbers, traces}.match();
}

}  // namespace lockstep::kineto
