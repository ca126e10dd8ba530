#include "core/comm/channel.h"

#include <algorithm>
#include <deque>
#include <functional>
#include <stdexcept>
#include <utility>

namespace lockstep {

namespace {

/// Returns a message's id, which both sides compute from the source, destination and
/// channel (10 bits each) and the message's number (22 bits). The id has 52 bits, so that readers
/// that parse JSON numbers as doubles keep it exact.
std::uint64_t message_id(int source, int destination, int channel, std::uint32_t count) {
  return (static_cast<std::uint64_t>(source & 0x3ff) << 42) |
         (static_cast<std::uint64_t>(destination & 0x3ff) << 32) |
         (static_cast<std::uint64_t>(channel & 0x3ff) << 22) | (count & 0x3fffff);
}

/// Returns the GpuTimeline entry for a message whose bytes are on a GPU.
GpuTimeline::Entry entry(int row, const Span& span, const Pending& pending, Picoseconds posted) {
  const Marks marks = pending.marks();
  return {.lane = row, .span = span, .start = marks.begun, .end = marks.done, .launched = posted};
}

/// The span of a wait for a message. It belongs to the step in which the rank waits, unless the
/// message states its step.
Span awaited(Span message, const Channel::Part& part) {
  message.step = part.span.step;
  return message;
}

std::span<std::byte> bytes_of(View view) {
  if (view.data != nullptr && !view.contiguous())
    throw std::invalid_argument(
        "the elements of a message must be contiguous; copy them together first");
  return {static_cast<std::byte*>(view.data), view.bytes()};
}

}  // namespace

/// A message and its callback. When the message is done, the callback records it in the trace and
/// returns the event at which it ended. The messages of a lane complete in the order in which they
/// were issued, because finish() first finishes all earlier messages.
class Channel::Message final : public Task {
 public:
  using Record = std::function<Event(Pending&)>;
  Message(Lane& lane, std::unique_ptr<Pending> pending, Record record)
      : lane_(lane), pending_(std::move(pending)), record_(std::move(record)) {
    lane_.in_flight.push_back(this);
  }
  ~Message() override { std::erase(lane_.in_flight, this); }

  Event finish() override {
    while (pending_) lane_.in_flight.front()->take();
    return end_;
  }

 private:
  void take() {
    pending_->wait();
    end_ = record_(*pending_);
    end_.mark = pending_->marks().done;
    pending_.reset();
    lane_.in_flight.pop_front();
  }

  Lane& lane_;
  std::unique_ptr<Pending> pending_;
  Record record_;
  Event end_;
};

Channel::Channel(Endpoint endpoint, int id, const std::string& send_lane,
                 const std::string& receive_lane, const std::string& axis)
    : endpoint_(endpoint), id_(id), lanes_(std::make_unique<Lanes>()) {
  lanes_->send.name = send_lane;
  lanes_->receive.name = receive_lane;
  lanes_->send.counts.resize(static_cast<std::size_t>(endpoint.transport.size()));
  lanes_->receive.counts.resize(static_cast<std::size_t>(endpoint.transport.size()));
  const Stream& compute = endpoint.device.compute;
  if (OperationLog* log = compute.operations(); log != nullptr && !axis.empty())
    recorded_ = {log->open_stream(), id, compute.trace().keep(axis)};
  const Clock& clock = compute.clock();
  if (clock.is_modelled() && clock.cluster().shared)
    shared_ = endpoint.transport.shared_time(clock.cluster(), id);
}

Span Channel::next(MessageRole role, int peer, std::int64_t bytes, const Part& part) {
  const int self = endpoint_.transport.rank();
  Span span = part.span;
  span.category = Category::communication;
  // A sent message belongs to the step in which its contents were computed, a received one to the
  // step in which the rank waits for it.
  if (role == MessageRole::sends && span.step < 0)
    span.step = endpoint_.device.compute.trace().step();
  span.bytes = bytes;
  span.peer = peer;
  span.role = role;
  span.message = role == MessageRole::sends
                     ? message_id(self, peer, id_, lanes_->send.next(peer))
                     : message_id(peer, self, id_, lanes_->receive.next(peer));
  return span;
}

OperationLog::Issued Channel::issued(RecordedOperation::Kind direction, int peer,
                                     const Span& span) const {
  return recorded_ ? endpoint_.device.compute.operations()->message(direction, *recorded_, peer,
                                                                    span.bytes, span)
                   : OperationLog::not_recorded;
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

/// A message on shared links. The transport keeps a copy of its data, so the buffer may be released
/// before the message's time is known.
class Channel::SharedSend final : public Task {
 public:
  SharedSend(std::unique_ptr<Pending> pending, std::shared_ptr<SharedTime::Message> time)
      : pending_(std::move(pending)), time_(std::move(time)) {}
  Event finish() override {
    release();
    return {time_->wait()};
  }
  Event release() override {
    pending_->wait();
    return {};
  }

 private:
  std::unique_ptr<Pending> pending_;
  std::shared_ptr<SharedTime::Message> time_;
};

Work Channel::send_shared(View data, int to, const Event& ready, const Part& part) {
  Stream& compute = endpoint_.device.compute;
  const int self = endpoint_.transport.rank();
  Recorder& trace = compute.trace();
  const Span span = next(MessageRole::sends, to, static_cast<std::int64_t>(data.bytes()), part);
  const auto as = issued(RecordedOperation::Kind::send, to, span);
  const int row = lanes_->send.id_in(trace);
  auto pending = endpoint_.transport.send(route(to, part), bytes_of(data), ready);
  auto time = shared_->send(
      route(to, part),
      {.to = to,
       .bytes = span.bytes,
       .ready = ready.time,
       .latency = compute.clock().cluster().latency(self, to, span.bytes)},
      [=, &trace](const Passage& passage) { trace.span(row, span, passage.start, passage.end); });
  return Work{compute, awaited(span, part),
              std::make_unique<SharedSend>(std::move(pending), std::move(time))}
      .recorded_as(as);
}

Work Channel::receive_shared(View into, int from, const Part& part, Combine combine,
                             const Event& free) {
  Stream& compute = endpoint_.device.compute;
  Recorder& trace = compute.trace();
  Lane& lane = lanes_->receive;
  Span span = next(MessageRole::receives, from, static_cast<std::int64_t>(into.bytes()), part);
  if (span.step < 0) span.step = trace.step();  // it may be recorded in a later step
  const auto as = issued(RecordedOperation::Kind::receive, from, span);
  const int row = lane.id_in(trace);
  auto pending = endpoint_.transport.receive(route(from, part), bytes_of(into), combine, free);
  auto time = shared_->receive(route(from, part), [=, &trace](const Passage& passage) {
    trace.span(row, span, passage.start, passage.end);
  });
  return Work{compute, awaited(span, part),
              std::make_unique<Message>(lane, std::move(pending),
                                        [time](Pending&) { return Event{time->wait()}; })}
      .recorded_as(as);
}

Work Channel::send(View data, int to, Event ready, const Part& part) {
  if (shared_) return send_shared(data, to, ready, part);
  Stream& compute = endpoint_.device.compute;
  const Clock& clock = compute.clock();
  const int self = endpoint_.transport.rank();
  const Span span = next(MessageRole::sends, to, static_cast<std::int64_t>(data.bytes()), part);
  Lane& lane = lanes_->send;
  Recorder& trace = compute.trace();
  if (clock.is_modelled()) {
    const Passage passage = depart(clock.cluster(), self, to, span.bytes, ready.time, lane.free);
    trace.span(lane.id_in(trace), span, passage.start, passage.end);
    const auto as = issued(RecordedOperation::Kind::send, to, span);
    return Work{compute, awaited(span, part),
                std::make_unique<Message>(lane,
                                          endpoint_.transport.send(route(to, part), bytes_of(data),
                                                                   {passage.start, ready.mark}),
                                          [end = passage.end](Pending&) { return Event{end}; })}
        .recorded_as(as);
  }

  GpuTimeline* timeline = compute.timeline();
  const int row = lane.id_in(trace);
  const Picoseconds posted = clock.now();
  return {compute, awaited(span, part),
          std::make_unique<Message>(
              lane, endpoint_.transport.send(route(to, part), bytes_of(data), {posted, ready.mark}),
              [=, &lane, &trace, &clock](Pending& pending) {
                if (timeline != nullptr) {
                  timeline->span(entry(row, span, pending, posted));
                  return Event{clock.now()};
                }
                const Picoseconds start = std::max(posted, lane.free);
                lane.free = std::max(clock.since_start(pending.done_nanoseconds()), start);
                trace.span(row, span, start, lane.free);
                return Event{lane.free};
              })};
}

Work Channel::receive(View into, int from, const Part& part) {
  return receive(into, from, part, nullptr, endpoint_.device.compute.record());
}

Work Channel::receive(View into, int from, const Part& part, Combine combine, const Event& free) {
  if (shared_) return receive_shared(into, from, part, combine, free);
  Stream& compute = endpoint_.device.compute;
  const Clock& clock = compute.clock();
  const int self = endpoint_.transport.rank();
  const Span span =
      next(MessageRole::receives, from, static_cast<std::int64_t>(into.bytes()), part);
  Lane& lane = lanes_->receive;
  Recorder& trace = compute.trace();
  GpuTimeline* timeline = compute.timeline();
  const int row = lane.id_in(trace);
  const Picoseconds posted = clock.now();
  const auto as = issued(RecordedOperation::Kind::receive, from, span);
  return Work{
      compute, awaited(span, part),
      std::make_unique<Message>(
          lane, endpoint_.transport.receive(route(from, part), bytes_of(into), combine, free),
          [=, &lane, &trace, &clock](Pending& pending) {
            if (timeline != nullptr) {
              timeline->span(entry(row, span, pending, posted));
              return Event{clock.now()};
            }
            Picoseconds start = 0;
            Picoseconds end = 0;
            if (clock.is_modelled()) {
              const Passage passage =
                  arrive(clock.cluster(), from, self, span.bytes, pending.departure(), lane.free);
              start = passage.start;
              end = passage.end;
            } else {
              // The time during which the receiver waited for the sender's post is not part of
              // the message.
              start = std::max({posted, pending.departure(), lane.free});
              end = std::max(clock.since_start(pending.done_nanoseconds()), start);
            }
            lane.free = end;
            trace.span(row, span, start, end);
            return Event{end};
          })}
      .recorded_as(as);
}

void Channel::record_sent(int to, std::int64_t bytes, const Passage& passage, const Part& part) {
  Recorder& trace = endpoint_.device.compute.trace();
  trace.span(lanes_->send.id_in(trace), next(MessageRole::sends, to, bytes, part), passage.start,
             passage.end);
}

void Channel::record_received(int from, std::int64_t bytes, const Passage& passage,
                              const Part& part) {
  Recorder& trace = endpoint_.device.compute.trace();
  trace.span(lanes_->receive.id_in(trace), next(MessageRole::receives, from, bytes, part),
             passage.start, passage.end);
}

}  // namespace lockstep
