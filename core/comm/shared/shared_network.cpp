#include "core/comm/shared/shared_network.h"

#include <algorithm>
#include <utility>

namespace lockstep {

namespace {

/// Ranks and channels fit into 21 bits (Cluster, Transport).
std::uint64_t key(int a, int b, int c) {
  return static_cast<std::uint64_t>(a) << 42 | static_cast<std::uint64_t>(b) << 21 |
         static_cast<std::uint64_t>(c);
}

}  // namespace

int SharedNetwork::open_stream(int rank, int channel) {
  streams_.push_back({.rank = rank, .channel = channel});
  return static_cast<int>(streams_.size()) - 1;
}

int SharedNetwork::new_message() {
  if (unused_.empty()) {
    messages_.emplace_back();
    return static_cast<int>(messages_.size()) - 1;
  }
  const int index = unused_.back();
  unused_.pop_back();
  message(index) = {};
  return index;
}

SharedNetwork::Pair& SharedNetwork::pair(int from, int to, int channel) {
  from = folding_.seen_from(to, from);
  to = folding_.representative(to);
  const auto [found, is_new] = pairs_.try_emplace(key(from, to, channel));
  if (is_new && cluster_.shared)
    for (const auto& each : cluster_.shared->route(from, to, cluster_.ranks_per_node)) {
      const auto [resource, times] = links_.representative(each);
      found->second.path.push_back(fluid_.number_of(resource, times));
    }
  return found->second;
}

void SharedNetwork::add(Picoseconds time, Event::Kind kind, int index) {
  events_.push({time, kind, events_added_++, index});
}

int SharedNetwork::match(Queue& others, Queue& own) {
  if (others.empty()) {
    own.push(new_message());
    return own.back();
  }
  const int index = others.front();
  others.pop();
  return index;
}

void SharedNetwork::send(int number, const OutgoingMessage& out, Listener& listener, int tag) {
  Stream& mine = stream(number);
  Pair& between = pair(mine.rank, out.to, mine.channel);
  const int index = match(between.expected, between.sent);
  Message& sent = message(index);
  sent.from_stream = number;
  sent.out = out;
  sent.sender = &listener;
  sent.sender_tag = tag;
  sent.path = &between.path;
  mine.sending.push(index);
  if (mine.sending.size() == 1) start_first(number);
}

void SharedNetwork::receive(int number, int from, Listener& listener, int tag) {
  Stream& mine = stream(number);
  Pair& between = pair(from, mine.rank, mine.channel);
  const int index = match(between.sent, between.expected);
  Message& expected = message(index);
  expected.to_stream = number;
  expected.receiver = &listener;
  expected.receiver_tag = tag;
  mine.receiving.push(index);
  if (mine.receiving.size() == 1) settle(number);
}

void SharedNetwork::at(Picoseconds time, Listener& listener, int tag) {
  int index = static_cast<int>(timers_.size());
  if (unused_timers_.empty()) {
    timers_.push_back({});
  } else {
    index = unused_timers_.back();
    unused_timers_.pop_back();
  }
  timers_[static_cast<std::size_t>(index)] = {&listener, tag};
  add(time, Event::Kind::timer, index);
}

/// Schedules the start of the first message on a sending lane, if there is one.
void SharedNetwork::start_first(int number) {
  const Stream& mine = stream(number);
  if (mine.sending.empty()) return;
  const int index = mine.sending.front();
  const Picoseconds start = std::max({message(index).out.ready, mine.send_free, now_});
  add(start, Event::Kind::start, index);
}

void SharedNetwork::start(int index) {
  Message& starts = message(index);
  starts.start = now_;
  const Stream& from = stream(starts.from_stream);
  const Link::Segment link = cluster_.link(from.rank, starts.out.to).at(starts.out.bytes);
  const double bytes = static_cast<double>(starts.out.bytes) * starts.out.load;
  const Fluid::Flow flow =
      fluid_.add(now_, bytes, link.bandwidth, picoseconds(bytes / link.bandwidth), *starts.path);
  const auto number = static_cast<std::size_t>(flow);
  if (number >= of_flow_.size()) of_flow_.resize(number + 1);
  of_flow_[number] = index;
}

void SharedNetwork::leaves(int index) {
  const Message gone = message(index);
  Stream& from = stream(gone.from_stream);
  from.send_free = now_;
  from.sending.pop();
  add(now_ + gone.out.latency, Event::Kind::arrival, index);
  start_first(gone.from_stream);
  gone.sender->left(gone.sender_tag, {gone.start, now_});  // this call may post messages
}

// Messages are received in the order in which the rank asked for them.
void SharedNetwork::settle(int number) {
  while (!stream(number).receiving.empty()) {
    Stream& mine = stream(number);
    const int index = mine.receiving.front();
    const Message received = message(index);
    if (received.arrival == unknown) return;
    mine.receiving.pop();
    const Picoseconds end = std::max(received.arrival, mine.receive_free);
    const Picoseconds start =
        std::min(std::max(received.start + received.out.latency, mine.receive_free), end);
    mine.receive_free = end;
    unused_.push_back(index);
    received.receiver->arrived(received.receiver_tag, {start, end});
  }
}

std::optional<Picoseconds> SharedNetwork::next() {
  const auto flows = fluid_.next();
  if (events_.empty()) return flows;
  return flows ? std::min(*flows, events_.top().time) : events_.top().time;
}

void SharedNetwork::advance() {
  const auto time = next();
  if (!time) return;
  now_ = cluster_.after(std::max(now_, *time), 0);
  bool happened = false;
  if (const auto flows = fluid_.next(); flows && *flows <= now_) {
    happened = true;
    ended_.clear();
    fluid_.take(ended_);
    for (const Fluid::Flow flow : ended_) leaves(of_flow_[static_cast<std::size_t>(flow)]);
  }
  while (!events_.empty() && events_.top().time <= now_) {
    const Event event = events_.top();
    // Before a timer fires, flows that end at this time must end, and ranks must continue.
    if (event.kind == Event::Kind::timer && (happened || fluid_.next() == now_)) return;
    events_.pop();
    switch (event.kind) {
      case Event::Kind::start:
        start(event.index);
        break;
      case Event::Kind::arrival: {
        Message& arrives = message(event.index);
        arrives.arrival = now_;
        if (arrives.to_stream != none) settle(arrives.to_stream);
        break;
      }
      case Event::Kind::timer: {
        const Timer timer = timers_[static_cast<std::size_t>(event.index)];
        unused_timers_.push_back(event.index);
        timer.listener->reached(timer.tag);
        continue;
      }
    }
    happened = true;
  }
}

}  // namespace lockstep
