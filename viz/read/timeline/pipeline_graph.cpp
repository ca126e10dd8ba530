#include "viz/read/timeline/pipeline_graph.h"

#include <algorithm>
#include <map>
#include <tuple>
#include <utility>

#include "viz/read/timeline/visit_band.h"

namespace lockstep {

namespace {

/// Identifies an action: rank, stage, microbatch, and whether it is a forward pass.
using ActionKey = std::tuple<int, int, int, bool>;

bool is_action(const Timeline& timeline, const TimelineSpan& span) {
  return is_pipeline_action(timeline, span) && span.category != Category::recompute &&
         span.stage >= 0 && span.microbatch >= 0;
}

/// Returns whether a rank waits until its message has left, as a rank with blocking sends does.
bool waits_to_send(const Timeline& timeline, const TimelineSpan& span) {
  return span.category == Category::wait && timeline.name(span.name) == "send";
}

/// Returns how much of an interval `waits` cover.
Picoseconds covered(const Intervals& waits, const Interval& time) {
  Picoseconds sum = 0;
  for (auto at = std::ranges::upper_bound(waits, time.start, {}, &Interval::end);
       at != waits.end() && at->start < time.end; ++at)
    sum += std::min(at->end, time.end) - std::max(at->start, time.start);
  return sum;
}

struct Send {
  TimelineSpan span;
  int rank = 0;
  int ahead = -1;  ///< the previous send on its lane
};

/// The spans of a step's messages. The lists are in order of time. A list of messages with the same
/// labels has two elements if both neighbours of a stage are on the same rank: first the
/// activation, then the gradient.
struct MessageEnds {
  std::vector<Send> sends;
  std::map<std::array<int, 4>, std::vector<int>> sent;  ///< by rank, peer, producer, microbatch
  std::map<std::array<int, 3>, std::vector<TimelineSpan>> received;  ///< by rank, user, microbatch

  MessageEnds(const Timeline& timeline, const StepWindow& window) {
    for (const auto& rank : timeline.ranks())
      for (const auto& lane : rank->lanes)
        if (!lane->is_compute()) read(timeline, window, rank->rank, *lane);
    for (auto& [key, ids] : sent)
      std::ranges::sort(ids, {},
                        [&](int id) { return sends[static_cast<std::size_t>(id)].span.start; });
    for (auto& [key, spans] : received) std::ranges::sort(spans, {}, &TimelineSpan::end);
  }

 private:
  void read(const Timeline& timeline, const StepWindow& window, int rank, const Lane& lane) {
    int ahead = -1;
    visit_band(lane, Band::action, {window.start, window.end}, [&](const TimelineSpan& span) {
      if (span.step != window.step || span.category != Category::communication || span.stage < 0)
        return;
      if (timeline.name(span.name) == "send") {
        const int id = static_cast<int>(sends.size());
        sent[{rank, span.peer, span.stage, span.microbatch}].push_back(id);
        sends.push_back({span, rank, std::exchange(ahead, id)});
      } else if (timeline.name(span.name) == "recv") {
        received[{rank, span.stage, span.microbatch}].push_back(span);
      }
    });
  }
};

}  // namespace

PipelineGraph::PipelineGraph(const Timeline& timeline, int step) {
  const StepWindow* window = timeline.find_step(step);
  if (!window) return;
  read_actions(timeline, *window);
  if (nodes_.empty()) return;
  read_messages(timeline, *window);
  follow_chains();
}

void PipelineGraph::read_actions(const Timeline& timeline, const StepWindow& window) {
  for (const auto& rank : timeline.ranks()) {
    for (const Interval& busy : pipeline_actions(timeline, *rank, window.step)) {
      if (!window_) window_ = busy;
      window_->start = std::min(window_->start, busy.start);
      window_->end = std::max(window_->end, busy.end);
    }
    std::vector<int>& mine = actions_.emplace_back();
    const Lane* lane = rank->compute();
    if (!lane) continue;
    std::vector<TimelineSpan> spans;
    std::vector<Interval> waiting;
    visit_band(*lane, Band::action, {window.start, window.end}, [&](const TimelineSpan& span) {
      if (span.category == Category::wait) waiting.push_back({span.start, span.end});
      if (span.step == window.step && (is_action(timeline, span) || waits_to_send(timeline, span)))
        spans.push_back(span);
    });
    const Intervals waits = merged(std::move(waiting));
    std::ranges::stable_sort(spans, {}, [](const TimelineSpan& span) {
      return std::pair{span.start, span.end};
    });
    int previous = -1;
    for (const TimelineSpan& span : spans) {
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
    }
  }
}

void PipelineGraph::read_messages(const Timeline& timeline, const StepWindow& window) {
  const MessageEnds ends{timeline, window};
  const int actions = static_cast<int>(nodes_.size());  // and waits to send
  std::map<ActionKey, int> producers;
  std::map<std::tuple<int, int, bool>, int> sole_producers;  // -1: there are several
  for (int id = 0; id < actions; ++id) {
    const PathLink& link = node(id).link;
    // The result of a W stays on its rank.
    if (link.kind != PathLink::Kind::action || link.category == Category::backward_weight) continue;
    const bool forward = link.category == Category::forward;
    producers.try_emplace({link.rank, link.stage, link.microbatch, forward}, id);
    const auto [sole, first] =
        sole_producers.try_emplace({link.stage, link.microbatch, forward}, id);
    if (!first) sole->second = -1;
  }
  const auto transfer_of = [&](int send) { return send < 0 ? -1 : actions + 2 * send; };
  for (const Send& send : ends.sends) {
    PathLink link{.kind = PathLink::Kind::transfer,
                  .time = {send.span.start, send.span.end},
                  .rank = send.rank,
                  .to_rank = send.span.peer,
                  .stage = send.span.stage,
                  .microbatch = send.span.microbatch};
    const int transfer = add(link, transfer_of(send.ahead));
    link.kind = PathLink::Kind::latency;
    link.time.start = link.time.end;
    add(link, transfer);
  }

  for (int id = 0; id < actions; ++id) {
    const PathLink user = node(id).link;
    const bool forward = user.category == Category::forward;
    const int source = user.stage + (forward ? -1 : 1);
    int& input = nodes_[static_cast<std::size_t>(id)].input;
    if (user.kind != PathLink::Kind::action || user.category == Category::backward_weight) continue;
    if (const auto here = producers.find({user.rank, source, user.microbatch, forward});
        here != producers.end()) {
      input = here->second;
      continue;
    }
    if (const auto received = ends.received.find({user.rank, user.stage, user.microbatch});
        received != ends.received.end()) {
      std::vector<TimelineSpan> candidates = received->second;
      if (!forward) std::ranges::reverse(candidates);
      for (const TimelineSpan& receive : candidates) {
        const auto producer = producers.find({receive.peer, source, user.microbatch, forward});
        const auto sent = ends.sent.find({receive.peer, user.rank, source, user.microbatch});
        if (producer == producers.end() || sent == ends.sent.end()) continue;
        input = producer->second;
        connect(transfer_of(forward ? sent->second.front() : sent->second.back()), id, receive.end);
        break;
      }
    }
    if (input >= 0) continue;
    // Without labels on messages, the time from an action to the one that uses its result counts as
    // a transfer, if only one rank can have sent it.
    const auto only = sole_producers.find({source, user.microbatch, forward});
    if (only == sole_producers.end() || only->second < 0) continue;
    input = only->second;
    const PathLink& producer = node(input).link;
    if (producer.time.end <= user.time.start) {
      PathLink message = producer;
      message.kind = PathLink::Kind::transfer;
      message.time = {producer.time.end, user.time.start};
      message.to_rank = user.rank;
      message.stalled = 0;
      waits_for_[static_cast<std::size_t>(id)][1] = add(message, input);
    }
  }
}

int PipelineGraph::add(const PathLink& link, int previous) {
  nodes_.push_back({.link = link});
  waits_for_.push_back({previous, -1});
  return static_cast<int>(nodes_.size()) - 1;
}

void PipelineGraph::connect(int transfer, int user, Picoseconds arrived) {
  const auto producer = nodes_[static_cast<std::size_t>(user)].input;
  PathLink& leaving = nodes_[static_cast<std::size_t>(transfer)].link;
  PathLink& flying = nodes_[static_cast<std::size_t>(transfer) + 1].link;
  if (arrived < leaving.time.start) return;  // not in a trace that Lockstep wrote
  leaving.category = flying.category = node(user).link.category;
  // On the wall clock, a send ends when the receiver has matched it, which the sender may notice
  // late.
  leaving.time.end = std::min(leaving.time.end, arrived);
  flying.time = {leaving.time.end, arrived};
  waits_for_[static_cast<std::size_t>(transfer)][1] = producer;
  waits_for_[static_cast<std::size_t>(user)][1] = transfer + 1;
}

void PipelineGraph::follow_chains() {
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

void PipelineGraph::choose_before(Node& each, const std::array<int, 2>& waits_for) const {
  const auto end_of = [&](int id) { return node(id).link.time.end; };
  for (const int other : waits_for)
    if (other >= 0 && end_of(other) <= each.link.time.start &&
        (each.before < 0 || end_of(other) > end_of(each.before)))
      each.before = other;
}

}  // namespace lockstep
