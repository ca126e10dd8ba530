#include "core/comm/channel.h"

#include <algorithm>
#include <deque>
#include <functional>
#include <stdexcept>
#include <utility>

namespace lockstep {

namespace {

/// The same number on both ends: source, destination and channel (10 bits each), count (22). 52
/// bits, so that it survives readers that parse JSON numbers as doubles.
std::uint64_t flow_id(int source, int destination, int channel, std::uint32_t count) {
  return (static_cast<std::uint64_t>(source & 0x3ff) << 42) |
         (static_cast<std::uint64_t>(destination & 0x3ff) << 32) |
         (static_cast<std::uint64_t>(channel & 0x3ff) << 22) | (count & 0x3fffff);
}

Span span_of(const Channel::Part& part, int peer, std::int64_t bytes) {
  Span span = part.span;
  span.category = Category::communication;
  span.bytes = bytes;
  span.peer = peer;
  return span;
}

using Flow = GpuTimeline::Entry::Flow;

/// The timeline entry of a message on a GPU.
GpuTimeline::Entry entry(int lane, const Span& span, const Pending& pending, Picoseconds posted,
                         std::uint64_t flow, Flow kind) {
  const Marks marks = pending.marks();
  return {.lane = lane,
          .span = span,
          .start = marks.begun,
          .end = marks.done,
          .launched = posted,
          .flow = flow,
          .kind = kind};
}

std::span<std::byte> bytes_of(View view) {
  if (view.data != nullptr && !view.contiguous())
    throw std::invalid_argument("a message wants contiguous elements; copy them together first");
  return {static_cast<std::byte*>(view.data), view.bytes()};
}

}  // namespace

/// A message, and a callback that records it when it is done and returns its end. A lane's messages
/// complete in the order in which they were issued: finishing a later one first finishes the
/// earlier ones.
class Channel::Message final : public Task {
 public:
  using Note = std::function<Event(Pending&)>;
  Message(std::deque<Message*>& lane, std::unique_ptr<Pending> pending, Note note)
      : lane_(lane), pending_(std::move(pending)), note_(std::move(note)) {
    lane_.push_back(this);
  }
  ~Message() override { std::erase(lane_, this); }

  Event finish() override {
    while (pending_) lane_.front()->take();
    return end_;
  }

 private:
  void take() {
    pending_->wait();
    end_ = note_(*pending_);
    end_.mark = pending_->marks().done;
    pending_.reset();
    lane_.pop_front();
  }

  std::deque<Message*>& lane_;
  std::unique_ptr<Pending> pending_;
  Note note_;
  Event end_;
};

Channel::Channel(Endpoint endpoint, int id, const std::string& send_lane,
                 const std::string& receive_lane)
    : endpoint_(endpoint), id_(id), lanes_(std::make_unique<Lanes>()) {
  lanes_->send.name = send_lane;
  lanes_->receive.name = receive_lane;
  lanes_->sent.resize(static_cast<std::size_t>(endpoint.transport.size()));
  lanes_->received.resize(static_cast<std::size_t>(endpoint.transport.size()));
}

Route Channel::route(int peer, const Part& part) const {
  return {.peer = peer,
          .channel = id_,
          .operation = part.span.name,
          .where = part.where,
          .group = part.span.group,
          .whole = part.whole,
          .number = part.span.sequence,
          .root = part.root,
          .algorithm = part.span.algorithm};
}

Work Channel::send(View data, int to, Event ready, const Part& part) {
  Stream& compute = endpoint_.device.compute;
  const Clock& clock = compute.clock();
  const int self = endpoint_.transport.rank();
  const Span span = span_of(part, to, static_cast<std::int64_t>(data.bytes()));
  Lanes* lanes = lanes_.get();
  Recorder& trace = compute.trace();
  if (clock.is_modelled()) {
    const Passage passage =
        depart(clock.cluster(), self, to, span.bytes, ready.time, lanes->send_free);
    note_sent(to, span.bytes, passage, part);
    return {compute, span,
            std::make_unique<Message>(lanes->sends,
                                      endpoint_.transport.send(route(to, part), bytes_of(data),
                                                               {passage.start, ready.mark}),
                                      [end = passage.end](Pending&) { return Event{end}; })};
  }

  const std::uint64_t flow = flow_id(self, to, id_, lanes->sent[static_cast<std::size_t>(to)]++);
  GpuTimeline* timeline = compute.timeline();
  const int lane = lanes->send.in(trace);
  const Picoseconds posted = clock.now();
  return {compute, span,
          std::make_unique<Message>(
              lanes->sends,
              endpoint_.transport.send(route(to, part), bytes_of(data), {posted, ready.mark}),
              [=, &trace, &clock](Pending& pending) {
                if (timeline != nullptr) {
                  timeline->span(entry(lane, span, pending, posted, flow, Flow::starts));
                  return Event{clock.now()};
                }
                const Picoseconds start = std::max(posted, lanes->send_free);
                lanes->send_free = std::max(clock.since_start(pending.done_nanoseconds()), start);
                trace.span(lane, span, start, lanes->send_free);
                trace.flow_start(lane, flow, start);
                return Event{lanes->send_free};
              })};
}

Work Channel::receive(View into, int from, const Part& part) {
  return receive(into, from, part, nullptr, endpoint_.device.compute.record());
}

Work Channel::receive(View into, int from, const Part& part, Combine combine, const Event& free) {
  Stream& compute = endpoint_.device.compute;
  const Clock& clock = compute.clock();
  const int self = endpoint_.transport.rank();
  const Span span = span_of(part, from, static_cast<std::int64_t>(into.bytes()));
  const std::uint64_t flow =
      flow_id(from, self, id_, lanes_->received[static_cast<std::size_t>(from)]++);

  Lanes* lanes = lanes_.get();
  Recorder& trace = compute.trace();
  GpuTimeline* timeline = compute.timeline();
  const int lane = lanes->receive.in(trace);
  const Picoseconds posted = clock.now();
  return {compute, span,
          std::make_unique<Message>(
              lanes->receives,
              endpoint_.transport.receive(route(from, part), bytes_of(into), combine, free),
              [=, &trace, &clock](Pending& pending) {
                if (timeline != nullptr) {
                  timeline->span(entry(lane, span, pending, posted, flow, Flow::ends));
                  return Event{clock.now()};
                }
                Picoseconds start = 0;
                Picoseconds end = 0;
                if (clock.is_modelled()) {
                  const Passage passage = arrive(clock.cluster(), from, self, span.bytes,
                                                 pending.departure(), lanes->receive_free);
                  start = passage.start;
                  end = passage.end;
                } else {
                  // Before the sender has posted there is nothing to receive: that time is waiting,
                  // not part of the message.
                  start = std::max({posted, pending.departure(), lanes->receive_free});
                  end = std::max(clock.since_start(pending.done_nanoseconds()), start);
                }
                lanes->receive_free = end;
                trace.span(lane, span, start, end);
                trace.flow_end(lane, flow, end);
                return Event{end};
              })};
}

void Channel::note_sent(int to, std::int64_t bytes, const Passage& passage, const Part& part) {
  Recorder& trace = endpoint_.device.compute.trace();
  const int lane = lanes_->send.in(trace);
  trace.span(lane, span_of(part, to, bytes), passage.start, passage.end);
  trace.flow_start(
      lane,
      flow_id(endpoint_.transport.rank(), to, id_, lanes_->sent[static_cast<std::size_t>(to)]++),
      passage.start);
}

void Channel::note_received(int from, std::int64_t bytes, const Passage& passage,
                            const Part& part) {
  Recorder& trace = endpoint_.device.compute.trace();
  const int lane = lanes_->receive.in(trace);
  trace.span(lane, span_of(part, from, bytes), passage.start, passage.end);
  trace.flow_end(lane,
                 flow_id(from, endpoint_.transport.rank(), id_,
                         lanes_->received[static_cast<std::size_t>(from)]++),
                 passage.end);
}

}  // namespace lockstep
