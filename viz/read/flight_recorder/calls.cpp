#include "viz/read/flight_recorder/calls.h"

#include <fmt/format.h>

#include <algorithm>
#include <compare>
#include <map>

#include "core/base/number.h"
#include "viz/read/flight_recorder/rank_list.h"

namespace lockstep::flight {
namespace {

/// Returns "send 0->1" for "nccl:send 0->1". The name of a backend may itself contain a colon.
std::string_view without_backend(std::string_view name) {
  const auto colon = name.rfind(':');
  return colon == std::string_view::npos ? name : name.substr(colon + 1);
}

/// Returns the rank in the group that a text spells, or -1.
int peer_of(std::string_view text) {
  const auto rank = number_from<std::int64_t>(text);
  return rank && *rank >= 0 && *rank < most_ranks ? static_cast<int>(*rank) : -1;
}

/// Reads "send 0->1" or "recv 1<-0"; the source of a receive may be "?".
void read_peers(Call& call, std::string_view name) {
  const auto space = name.find(' ');
  call.operation = name.substr(0, space);
  call.sends = call.operation == "send";
  if (!call.sends && call.operation != "recv") return;
  call.is_p2p = true;
  if (space == std::string_view::npos) return;
  const std::string_view peers = name.substr(space + 1);
  const auto arrow = peers.find(call.sends ? "->" : "<-");
  if (arrow == std::string_view::npos) return;
  const int left = peer_of(peers.substr(0, arrow)), right = peer_of(peers.substr(arrow + 2));
  call.source = call.sends ? left : right;
  call.destination = call.sends ? right : left;
}

class CallReader {
 public:
  explicit CallReader(const Dump& dump) : dump_(dump) {
    for (const Entry& entry : dump.entries) {
      knows_started_ = knows_started_ || entry.state == CollectiveState::started;
      updates_states_ = updates_states_ || entry.state == CollectiveState::started ||
                        entry.state == CollectiveState::completed || entry.completed_ns > 0;
    }
    for (const auto& [id, status] : dump.status)
      knows_started_ = knows_started_ || status.started > 0;
  }

  Calls read() {
    Calls calls;
    calls.knows_started = knows_started_;
    for (const Entry& entry : dump_.entries) add(calls.all, entry);
    count_without_sequence(calls.all);
    if (!calls.all.empty() && !calls.all.back().pending)
      for (Call& call : calls.all) call.overlapped = call.pending;
    return calls;
  }

 private:
  bool completed(const Entry& entry, bool is_p2p) const {
    if (entry.state == CollectiveState::completed || entry.completed_ns > 0) return true;
    const auto status = dump_.status.find(entry.pg_id);
    if (!is_p2p && entry.sequence > 0 && status != dump_.status.end() &&
        entry.sequence <= status->second.completed)
      return true;
    return entry.retired && !updates_states_;
  }

  void add(std::vector<Call>& calls, const Entry& entry) {
    Call call{.group = entry.group,
              .description = entry.description,
              .operation = {},
              .pg_id = entry.pg_id,
              .input = entry.input,
              .output = entry.output};
    read_peers(call, without_backend(entry.name));
    const bool in_p2p = call.is_p2p || entry.is_p2p;
    call.pending = !completed(entry, in_p2p);
    call.started = entry.state == CollectiveState::started || !call.pending;
    const Batch batch{entry.group, in_p2p, in_p2p ? entry.p2p : entry.sequence};
    if (!call.is_p2p) call.sequence = entry.sequence;
    // "coalesced" or "ALLGATHER_coalesced" ends a batch. An operation on several tensors,
    // "allreduce_coalesced", has the same ending, but no batch.
    if (call.operation.ends_with("coalesced") && end_batch(calls, batch, call)) return;
    if (entry.is_p2p && !call.is_p2p) return;  // ends a batch whose entries are missing
    batches_[batch].push_back(calls.size());
    calls.push_back(call);
  }

  /// The operations of a coalesced batch share these.
  struct Batch {
    std::string_view group;
    bool is_p2p = false;
    std::int64_t number = -1;
    auto operator<=>(const Batch&) const = default;
  };

  /// Gives the operations of a batch the state of the entry that ends it, and merges collectives,
  /// which share one sequence number, into one call. Returns false if the batch is empty.
  bool end_batch(std::vector<Call>& calls, const Batch& batch, const Call& end) {
    const auto found = batches_.find(batch);
    if (found == batches_.end() || batch.number < 0) return false;
    for (const std::size_t i : found->second) {
      calls[i].pending = end.pending;
      calls[i].started = end.started;
    }
    if (!batch.is_p2p) {
      Call& first = calls[found->second.front()];
      first.operations = static_cast<int>(found->second.size());
      if (first.operations > 1) first.input = first.output = {};
      for (std::size_t i = 1; i < found->second.size(); ++i)
        calls[found->second[i]].sequence = -1;  // the first call stands for it
    }
    batches_.erase(found);
    return true;
  }

  /// Numbers the collectives of each group if no entry has a sequence number.
  void count_without_sequence(std::vector<Call>& calls) const {
    const auto has_number = [](const Entry& entry) { return entry.sequence >= 0; };
    if (std::ranges::any_of(dump_.entries, has_number)) return;
    std::map<std::string_view, std::int64_t> counts;
    for (Call& call : calls)
      if (!call.is_p2p) call.sequence = ++counts[call.group];
  }

  const Dump& dump_;
  bool knows_started_ = false;
  bool updates_states_ = false;
  std::map<Batch, std::vector<std::size_t>> batches_;  ///< indices of calls
};

}  // namespace

std::string Call::words() const {
  if (!is_p2p) {
    std::string words{operation};
    if (operations > 1) words = fmt::format("{} coalesced {}", operations, operation);
    return sequence < 0 ? words : fmt::format("{} #{}", words, sequence);
  }
  const auto rank = [](int which) { return which < 0 ? std::string{"?"} : std::to_string(which); };
  return sends ? fmt::format("send {}->{}", rank(source), rank(destination))
               : fmt::format("recv {}<-{}", rank(destination), rank(source));
}

Calls calls_of(const Dump& dump) {
  return CallReader{dump}.read();
}

}  // namespace lockstep::flight
