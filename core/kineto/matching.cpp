#include "core/kineto/matching.h"

#include <algorithm>
#include <array>
#include <map>
#include <unordered_map>
#include <utility>

namespace lockstep::kineto {
namespace {

bool is_message(const Call& call) {
  return call.kind == CallKind::send || call.kind == CallKind::receive;
}

/// Joins the parts of a key with a character that no name contains.
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
  Matcher(const std::vector<RankCalls>& ranks, const std::vector<int>& numbers)
      : ranks_(ranks), numbers_(numbers) {
    // Ids and counts of PyTorch are complete or absent: a mixture would count in two ways.
    for (const RankCalls& rank : ranks_)
      for (const Call& call : rank.calls) {
        if (call.comms_id.empty()) all_have_ids_ = all_have_ids_ && is_message(call);
      }
  }

  std::vector<Match> match() {
    for (std::size_t rank = 0; rank < ranks_.size(); ++rank) add_rank(rank);
    std::vector<Match> matches;
    for (auto& [key, match] : found_) {
      const bool message = match.kind == CallKind::send;
      if (match.members.size() < 2) continue;
      if (message && (match.members.size() != 2 || !order_message(match))) continue;
      matches.push_back(std::move(match));
    }
    return matches;
  }

 private:
  void add_rank(std::size_t rank) {
    std::map<std::string, int> counts;  // how often a key occurred on this rank
    for (std::size_t i = 0; i < ranks_[rank].calls.size(); ++i) {
      const Call& call = ranks_[rank].calls[i];
      MatchedBy by = MatchedBy::order;
      std::string key = is_message(call) ? message_key(rank, call, by) : collective_key(call, by);
      if (key.empty()) continue;
      key = key_of(key, counts[key]++);
      Match& match = found_[key];
      match.kind = is_message(call) ? CallKind::send : call.kind;
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

  /// A message is known by the action that it belongs to, or by its two ranks.
  std::string message_key(std::size_t rank, const Call& call, MatchedBy& by) const {
    const bool sends = call.kind == CallKind::send;
    if (call.label) {
      by = MatchedBy::label;
      const bool forward = call.label->category == Category::forward;
      const int user = sends ? call.label->stage + (forward ? 1 : -1) : call.label->stage;
      return key_of("pp", call.step, user, forward ? 1 : 0, call.label->microbatch);
    }
    if (call.peer < 0) return {};
    const int self = numbers_[rank];
    return key_of("p2p", sends ? self : call.peer, sends ? call.peer : self, call.step);
  }

  /// Puts the sender first. Returns false if both are senders, or both receivers.
  bool order_message(Match& match) const {
    const auto sends = [&](const Match::Member& member) {
      return ranks_[member.rank].calls[member.call].kind == CallKind::send;
    };
    if (sends(match.members[0]) == sends(match.members[1])) return false;
    if (!sends(match.members[0])) std::swap(match.members[0], match.members[1]);
    return true;
  }

  const std::vector<RankCalls>& ranks_;
  const std::vector<int>& numbers_;
  bool all_have_ids_ = true;
  std::map<std::string, Match> found_;
};

}  // namespace

const char* name_of(MatchedBy by) {
  constexpr std::array names = {"Comms Id", "group and Seq", "pipeline labels", "order"};
  return names[static_cast<std::size_t>(by)];
}

std::vector<Match> match_calls(const std::vector<RankCalls>& ranks,
                               const std::vector<int>& numbers) {
  return Matcher{ranks, numbers}.match();
}

}  // namespace lockstep::kineto
