#pragma once

#include <deque>
#include <memory>
#include <source_location>
#include <string>
#include <vector>

#include "core/comm/transport/native.h"
#include "core/comm/transport/transport.h"
#include "core/comm/work.h"
#include "core/device/device.h"
#include "core/time/message_times.h"

namespace lockstep {

/// One rank's way to the others: its transport, and the device whose compute stream work starts
/// from.
struct Endpoint {
  Transport& transport;
  Device device;
  Collectives collectives = Collectives::ring;
};

/// A communication stream between this rank and others: in order, with a time of its own and a lane
/// in each direction, by the rules of modelled time (core/README.md, "Modelled time"):
///
///   a message starts when its data and the sender's lane are ready, holds that lane for β · bytes,
///   and has arrived α after that, but no sooner than β · bytes after the receiver's lane was free.
///
/// On the wall clock a lane's span begins when the message was posted, or when the one before it
/// was done. Every message is a pair of spans and a flow from one to the other. A Channel belongs
/// to one agent at a time: the rank's own thread, or a worker. It outlives its Works, and finishes
/// them in the order in which they were begun, one direction apart from the other.
class Channel {
 public:
  /// What a message is part of.
  struct Part {
    Span span;
    std::source_location where = std::source_location::current();
    std::int64_t whole = -1;  ///< of a collective; see Route
    int root = -1;            ///< the same
  };

  /// `id` is of Transport::open_channels; `send_lane` and `receive_lane` name the trace's lanes.
  Channel(Endpoint endpoint, int id, const std::string& send_lane, const std::string& receive_lane);

  /// Sends a contiguous view (std::invalid_argument for others) to rank `to` of the whole run; its
  /// data are ready at `ready`.
  Work send(View data, int to, Event ready, const Part& part);
  /// Receives into a contiguous view from rank `from`, which nobody else uses after `free`; see
  /// Transport::receive for `combine`.
  Work receive(View into, int from, const Part& part, Combine combine, const Event& free);
  /// One that nobody uses after what the compute stream has been given so far.
  Work receive(View into, int from, const Part& part);

  // For messages that were evaluated instead of sent (see MetaCollectives): write them into the
  // trace just as send() and receive() would have done.
  void note_sent(int to, std::int64_t bytes, const Passage& passage, const Part& part);
  void note_received(int from, std::int64_t bytes, const Passage& passage, const Part& part);

  const Endpoint& endpoint() const { return endpoint_; }
  /// The route of a message to or from `peer`, which error messages name.
  Route route(int peer, const Part& part) const;

 private:
  class Message;

  /// A lane enters the trace with its first message.
  struct Lane {
    std::string name;
    int id = -1;
    int in(Recorder& trace) { return id >= 0 ? id : id = trace.add_lane(name); }
  };
  /// Lanes outlive moves of the Channel: Works refer to them.
  struct Lanes {
    Lane send, receive;
    Picoseconds send_free = 0;
    Picoseconds receive_free = 0;
    std::deque<Message*> sends, receives;       ///< not done yet
    std::vector<std::uint32_t> sent, received;  ///< messages so far, by peer: they number the flows
  };

  Endpoint endpoint_;
  int id_;
  std::unique_ptr<Lanes> lanes_;
};

}  // namespace lockstep
