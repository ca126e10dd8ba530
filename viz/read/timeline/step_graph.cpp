#include "viz/read/timeline/step_graph.h"

#include <algorithm>
#include <utility>

#include "viz/read/timeline/visit_band.h"

namespace lockstep {

namespace {

/// Returns how much of an interval `waits` cover.
Picoseconds covered(const Intervals& waits, const Interval& time) {
  Picoseconds sum = 0;
  for (auto at = std::ranges::upper_bound(waits, time.start, {}, &Interval::end);
       at != waits.end() && at->start < time.end; ++at)
    sum += std::min(at->end, time.end) - std::max(at->start, time.start);
  return sum;
}

}  // namespace

bool StepGraph::Message::forward() const {
  const Payload payload = sent ? sent->payload : received->payload;
  return payload == Payload::other && sent && received ? sent->stage < received->stage
                                                       : payload == Payload::activations;
}

StepGraph::StepGraph(const Timeline& timeline, int step) {
  const StepWindow* window = timeline.find_step(step);
  if (!window) return;
  read_actions(timeline, *window);
  read_messages(timeline, *window);
  if (empty()) return;
  link_messages();
  link_without_messages();
  follow_chains();
}

void StepGraph::read_actions(const Timeline& timeline, const StepWindow& window) {
  for (const auto& rank : timeline.ranks()) {
    std::vector<int>& mine = actions_.emplace_back();
    std::vector<TimelineSpan> spans = actions_of(timeline, *rank, window.step);
    if (spans.empty()) continue;
    for (const TimelineSpan& span : spans) {
      if (!window_) window_ = {span.start, span.end};
      window_ = {std::min(window_->start, span.start), std::max(window_->end, span.end)};
    }
    std::vector<Interval> waiting;
    // With blocking sends, a rank also waits until its message has left.
    const Interval whole{window.start, window.end};
    visit_band(*rank->compute(), Band::action, whole, [&](const TimelineSpan& span) {
      if (span.category != Category::wait) return;
      waiting.push_back({span.start, span.end});
      if (span.step == window.step && span.sends()) spans.push_back(span);
    });
    const Intervals waits = merged(std::move(waiting));
    std::ranges::stable_sort(spans, {}, [](const TimelineSpan& span) {
      return std::pair{span.start, span.end};
    });
    int previous = -1;
    for (const TimelineSpan& span : spans) {
      if (span.category == Category::recompute || (span.is_action() && span.microbatch < 0))
        continue;
      PathLink link{.kind = PathLink::Kind::action,
                    .time = {span.start, span.end},
                    .rank = rank->rank,
                    .stage = span.stage,
                    .microbatch = span.microbatch,
                    .category = span.category,
                    .stalled = covered(waits, {span.start, span.end})};
      if (span.category == Category::wait) {
        if (previous < 0 || node(previous).link.time.end > span.start) continue;  // in an action
        link = node(previous).link;
        link.kind = PathLink::Kind::transfer;
        link.time = {span.start, span.end};
        link.to_rank = span.peer;
        link.stalled = 0;
        previous = add(link, previous);
        continue;
      }
      const int id = previous = add(link, previous);
      mine.push_back(id);
      if (last_ < 0 || span.end > node(last_).link.time.end) last_ = id;
      // The result of a W stays on its rank.
      if (span.category != Category::backward_weight)
        producers_.try_emplace(
            {rank->rank, span.stage, span.microbatch, span.category == Category::forward}, id);
    }
  }
}

void StepGraph::read_messages(const Timeline& timeline, const StepWindow& window) {
  // A pipeline without flushes also receives what was sent in the step before.
  const StepWindow* before = timeline.find_step(window.step - 1);
  const Interval around{before ? std::min(before->start, window.start) : window.start, window.end};
  Message unnamed;
  for (const auto& rank : timeline.ranks())
    for (const auto& lane : rank->lanes) {
      if (lane->is_compute()) continue;
      int ahead = -1;
      visit_band(*lane, Band::action, around, [&](const TimelineSpan& span) {
        if (span.category != Category::communication || !span.is_between_stages()) return;
        Message& message = span.message != 0 ? messages_[span.message] : unnamed;
        if (span.receives()) {
          message.received = span;
          message.to = rank->rank;
          message.to_lane = lane->tid();
          return;
        }
        PathLink link{.kind = PathLink::Kind::transfer,
                      .time = {span.start, span.end},
                      .rank = rank->rank,
                      .to_rank = span.peer,
                      .stage = span.stage,
                      .microbatch = span.microbatch};
        message.sent = span;
        message.from = rank->rank;
        if (span.step != window.step) return;
        message.transfer = add(link, ahead);
        link.kind = PathLink::Kind::latency;
        link.time.start = link.time.end;
        add(link, message.transfer);
        ahead = message.transfer;
      });
    }
}

int StepGraph::find(const ActionKey& action) const {
  const auto found = producers_.find(action);
  return found == producers_.end() ? -1 : found->second;
}

const StepGraph::Message* StepGraph::message(std::uint64_t id) const {
  const auto found = id == 0 ? messages_.end() : messages_.find(id);
  return found == messages_.end() ? nullptr : &found->second;
}

void StepGraph::link_messages() {
  for (auto& [id, message] : messages_) {
    const bool forward = message.forward();
    const TimelineSpan& span = message.sent ? *message.sent : *message.received;
    const int stage = message.sent ? span.stage : span.stage + (forward ? -1 : 1);
    message.producer =
        find({message.sent ? message.from : span.peer, stage, span.microbatch, forward});
    if (message.transfer < 0 || !message.received || message.producer < 0) continue;
    if (message.received->step != message.sent->step) continue;
    const int user = find({message.to, message.received->stage, span.microbatch, forward});
    if (user >= 0) connect(message, user);
  }
}

/// Gives the other actions their inputs: from another stage of their rank or, without a message,
/// from the only rank that ran the action. The time in between then counts as a transfer.
void StepGraph::link_without_messages() {
  std::map<std::tuple<int, int, bool>, int> sole;  // -1: there are several
  for (const auto& [key, id] : producers_) {
    const auto [found, first] =
        sole.try_emplace({std::get<1>(key), std::get<2>(key), std::get<3>(key)}, id);
    if (!first) found->second = -1;
  }
  for (const auto& [key, id] : producers_) {
    const auto [rank, stage, microbatch, forward] = key;
    int& input = nodes_[static_cast<std::size_t>(id)].input;
    if (input >= 0) continue;
    const int source = stage + (forward ? -1 : 1);
    input = find({rank, source, microbatch, forward});
    if (input >= 0) continue;
    const auto only = sole.find({source, microbatch, forward});
    if (only == sole.end() || only->second < 0) continue;
    input = only->second;
    const PathLink& producer = node(input).link;
    const Picoseconds start = node(id).link.time.start;
    if (producer.time.end > start) continue;
    PathLink message = producer;
    message.kind = PathLink::Kind::transfer;
    message.time = {producer.time.end, start};
    message.to_rank = rank;
    message.stalled = 0;
    waits_for_[static_cast<std::size_t>(id)][1] = add(message, only->second);
  }
}

int StepGraph::add(const PathLink& link, int previous) {
  nodes_.push_back({.link = link});
  waits_for_.push_back({previous, -1});
  return static_cast<int>(nodes_.size()) - 1;
}

void StepGraph::connect(const Message& message, int user) {
  const auto transfer = static_cast<std::size_t>(message.transfer);
  nodes_[static_cast<std::size_t>(user)].input = message.producer;
  PathLink& leaving = nodes_[transfer].link;
  PathLink& flying = nodes_[transfer + 1].link;
  const Picoseconds arrived = message.received->end;
  if (arrived < leaving.time.start) return;  // not in a trace that Lockstep wrote
  leaving.category = flying.category = node(user).link.category;
  // On the wall clock, a send ends when the receiver has matched it, which the sender may notice
  // late.
  leaving.time.end = std::min(leaving.time.end, arrived);
  flying.time = {leaving.time.end, arrived};
  waits_for_[transfer][1] = message.producer;
  waits_for_[static_cast<std::size_t>(user)][1] = message.transfer + 1;
}

void StepGraph::follow_chains() {
  // Each link comes after the links that it waits for. (Not recursive: a chain may be long.) In a
  // trace that Lockstep did not write, links may wait for each other in a cycle, which `begun`
  // breaks.
  std::vector<char> begun(nodes_.size()), done(nodes_.size());
  std::vector<int> open;
  for (int root = 0; root < static_cast<int>(nodes_.size()); ++root) {
    open.push_back(root);
    while (!open.empty()) {
      const auto id = static_cast<std::size_t>(open.back());
      if (!std::exchange(begun[id], char{1})) {
        for (const int other : waits_for_[id])
          if (other >= 0 && !begun[static_cast<std::size_t>(other)]) open.push_back(other);
        continue;
      }
      open.pop_back();
      if (std::exchange(done[id], char{1})) continue;
      for (int& other : waits_for_[id])
        if (other >= 0 && !done[static_cast<std::size_t>(other)]) other = -1;
      choose_before(nodes_[id], waits_for_[id]);
    }
  }
}

void StepGraph::choose_before(Node& each, const std::array<int, 2>& waits_for) const {
  const auto end_of = [&](int id) { return node(id).link.time.end; };
  for (const int other : waits_for)
    if (other >= 0 && end_of(other) <= each.link.time.start &&
        (each.before < 0 || end_of(other) > end_of(each.before)))
      each.before = other;
}

}  // namespace lockstep
