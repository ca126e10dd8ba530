#include <algorithm>
#include <utility>

#include "core/replay/player.h"

// The part of Replay::Player that times operations on a cluster with shared links.

namespace lockstep {

namespace {

/// The largest number of messages of collectives that are kept for Replay::expand(): half a
/// gigabyte.
constexpr std::size_t most_passages = std::size_t{1} << 25;

}  // namespace

void Replay::Player::send_on_shared(int rank, const RecordedOperation& operation) {
  const int to = rank + operation.peer;
  Cursor& at = cursor(rank);
  Lane& lane = at.send[operation.stream];
  auto& issued = state(rank).issued;
  const auto number = static_cast<std::int32_t>(issued.size());
  issued.push_back({-1, -1, std::exchange(lane.last, number)});
  in_flight(rank, to, operation.channel).sent.push_back({number, operation.bytes});
  network_->send(
      in_network(lane, rank, operation.channel),
      {.to = to,
       .bytes = operation.bytes,
       .ready = at.time,
       .latency = replay_.scenario_.links(operation.axis).latency(rank, to, operation.bytes),
       .load = replay_.scenario_.load(operation.axis)},
      listeners_[static_cast<std::size_t>(rank)], number);
}

int Replay::Player::in_network(Lane& lane, int rank, int channel) {
  if (lane.in_network < 0) lane.in_network = network_->open_stream(rank, channel);
  return lane.in_network;
}

void Replay::Player::Messages::arrived(int number, const Passage& passage) {
  auto& issued = player_.state(rank_).issued[static_cast<std::size_t>(number)];
  for (auto& [stream, lane] : player_.cursor(rank_).receive) {
    if (lane.unmatched.empty() || lane.unmatched.front().number != number) continue;
    const RecordedOperation& operation = *lane.unmatched.front().operation;
    lane.unmatched.pop_front();
    const int from = rank_ + operation.peer;
    auto& sent = player_.in_flight(from, rank_, operation.channel).sent;
    if (sent.empty()) refuse("a stream has messages of several channels");
    player_.check_fit(from, rank_, sent.front().bytes, operation.bytes);
    issued.sent = sent.front().number;
    sent.pop_front();
    break;
  }
  player_.ends(rank_, number, passage);
}

void Replay::Player::begin_call(GroupState& group, std::size_t member, std::size_t round,
                                std::uint32_t index) {
  const int rank = group.ranks[member];
  const std::int32_t number = group.calls[member][round];
  auto& plays = plays_[&group];
  if (plays.empty())
    plays = MemberCollectives::of_group(*network_, group.cluster, group.ranks, group.kept,
                                        group.collectives_channel());
  const Collective collective = group.settled(run_.operations[index].collective);
  auto& steps =
      steps_[{index, member, group.ranks.size(), static_cast<std::size_t>(collective.algorithm),
              static_cast<std::size_t>(collective.per_node)}];
  if (!steps)
    steps = std::make_shared<const std::vector<MetaStep>>(
        messages_of(collective, static_cast<int>(member), static_cast<int>(group.ranks.size())));
  const bool keeps = !run_.folding.folds() && passages_ + steps->size() <= most_passages;
  if (keeps) passages_ += steps->size();
  plays[member]->call(
      {.steps = steps,
       .ready = state(rank).issued[static_cast<std::size_t>(number)].start,
       .load = replay_.scenario_.load(group.name),
       .keeps_passages = keeps,
       .ended = [this, &group, rank, member, round, number, keeps](MemberCollectives::Ended call) {
         if (keeps) {
           const std::size_t place = round * group.ranks.size() + member;
           if (group.passages.size() <= place) group.passages.resize(place + 1);
           group.passages[place] = std::move(call.passages);
         }
         ends(rank, number, {call.called, call.end});
       }});
}

std::optional<bool> Replay::Player::is_beside_collective(int rank) {
  Cursor& at = cursor(rank);
  const auto& issued = state(rank).issued;
  std::erase_if(at.collectives, [&](std::int32_t number) {
    const Picoseconds end = issued[static_cast<std::size_t>(number)].end;
    return end >= 0 && end <= at.time;
  });
  if (at.waits_for != timed && !at.collectives.empty()) {
    at.waits_for = timer;
    network_->at(at.time, listeners_[static_cast<std::size_t>(rank)], 0);
    return {};
  }
  at.waits_for = nothing;
  return !at.collectives.empty();
}

void Replay::Player::Messages::reached(int) {
  player_.cursor(rank_).waits_for = timed;
  player_.open_.push_back(rank_);
}

}  // namespace lockstep
