#include "core/comm/meta/meta_steps.h"

#include <algorithm>
#include <deque>
#include <map>
#include <stdexcept>
#include <utility>

#include "core/base/error.h"

namespace lockstep {

std::optional<Misfit> misfit_of(const std::vector<std::span<const MetaStep>>& steps) {
  std::map<std::pair<int, int>, std::deque<std::int64_t>> sent;  // by sender and receiver
  for (std::size_t member = 0; member < steps.size(); ++member)
    for (const auto& [direction, peer, bytes] : steps[member])
      if (direction == Direction::send) sent[{member, peer}].push_back(bytes);
  for (std::size_t member = 0; member < steps.size(); ++member)
    for (const auto& [direction, peer, bytes] : steps[member]) {
      if (direction == Direction::send) continue;
      auto& messages = sent[{peer, member}];
      if (messages.empty() || messages.front() != bytes)
        return Misfit{peer, static_cast<int>(member), messages.empty() ? 0 : messages.front(),
                      bytes};
      messages.pop_front();
    }
  return {};
}

void check_switch(const Cluster& cluster, const std::vector<int>& ranks) {
  if (!cluster.in_switch)
    throw UsageError("cluster '" + cluster.name +
                     "' has no 'in_switch': its switches can't add; choose another algorithm");
  if (!cluster.on_one_node(ranks))
    throw UsageError("on cluster '" + cluster.name +
                     "', in_switch would add the elements of several nodes; a switch joins the "
                     "ranks of one");
}

StepPlayer::StepPlayer(std::vector<int> ranks, Cluster cluster)
    : ranks_(std::move(ranks)), cluster_(std::move(cluster)) {}

void StepPlayer::play(std::vector<MetaMember>& members) {
  const std::size_t count = ranks_.size();
  in_flight_.resize(count * count);
  next_.assign(count, 0);
  waits_for_.assign(count, none);
  sent_.clear();
  open_.clear();
  for (std::size_t i = 0; i < count; ++i) {
    MetaMember& member = members[i];
    member.end = member.ready;
    if (member.traced) member.passages.reserve(member.steps.size());
    open_.push_back(static_cast<int>(count - 1 - i));
  }
  if (play_in_switch(members)) return;
  while (!open_.empty()) {
    const int member = open_.back();
    open_.pop_back();
    advance(members, member);
  }
  for (std::size_t i = 0; i < count; ++i)
    if (next_[i] < members[i].steps.size())
      throw std::logic_error("a member of a collective expects a message that no member sends");
}

// All members' elements go up to the switch at once, when the last member and its lanes are ready.
// The sums come down α later.
bool StepPlayer::play_in_switch(std::vector<MetaMember>& members) const {
  if (members[0].steps.empty() || members[0].steps[0].peer != 0) return false;
  check_switch(cluster_, ranks_);
  const std::int64_t bytes = members[0].steps[0].bytes;
  const Link::Segment link = cluster_.in_switch->at(bytes);
  const Picoseconds held = picoseconds(static_cast<double>(bytes) / link.bandwidth);
  Picoseconds start = 0;
  for (const MetaMember& each : members)
    start = std::max({start, each.ready, each.send_free, each.receive_free});
  const Picoseconds end =
      cluster_.after(cluster_.after(start, held), picoseconds(link.latency_seconds));
  for (std::size_t i = 0; i < members.size(); ++i) {
    MetaMember& each = members[i];
    if (each.steps[0].bytes != bytes)
      throw Misfit{0, static_cast<int>(i), bytes, each.steps[0].bytes};
    each.bytes_sent = bytes;
    each.send_free = start + held;
    each.receive_free = each.ready = each.end = end;
    if (each.traced) each.passages = {{start, start + held}, {end - held, end}};
  }
  return true;
}

// As in ChannelPeers, a member's next step begins when its last receive has ended; the end of its
// last send delays only the end of the collective.
void StepPlayer::advance(std::vector<MetaMember>& members, int self) {
  MetaMember& member = members[static_cast<std::size_t>(self)];
  const int rank = ranks_[static_cast<std::size_t>(self)];
  for (std::size_t& next = next_[static_cast<std::size_t>(self)]; next < member.steps.size();
       ++next) {
    const MetaStep& step = member.steps[next];
    const int peer = ranks_[static_cast<std::size_t>(step.peer)];
    Passage passage;
    if (step.direction == Direction::send) {
      passage = depart(cluster_, rank, peer, step.bytes, member.ready, member.send_free);
      member.bytes_sent = member.bytes_sent.value_or(0) + step.bytes;
      InFlight& to = in_flight(self, step.peer);
      const int message = static_cast<int>(sent_.size());
      sent_.push_back({passage.start, step.bytes, none});
      (to.first == none ? to.first : sent_[static_cast<std::size_t>(to.last)].next) = message;
      to.last = message;
      if (int& awaited = waits_for_[static_cast<std::size_t>(step.peer)]; awaited == self) {
        awaited = none;
        open_.push_back(step.peer);
      }
    } else {
      InFlight& from = in_flight(step.peer, self);
      if (from.first == none) {
        waits_for_[static_cast<std::size_t>(self)] = step.peer;
        return;
      }
      const Sent message = sent_[static_cast<std::size_t>(from.first)];
      from.first = message.next;
      if (message.bytes != step.bytes) throw Misfit{step.peer, self, message.bytes, step.bytes};
      passage = arrive(cluster_, peer, rank, step.bytes, message.departure, member.receive_free);
      member.ready = std::max(member.ready, passage.end);
    }
    member.end = std::max(member.end, passage.end);
    if (member.traced) member.passages.push_back(passage);
  }
}

}  // namespace lockstep
