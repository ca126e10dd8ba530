#pragma once

#include <deque>
#include <memory>
#include <optional>
#include <source_location>
#include <string>
#include <vector>

#include "core/comm/shared/shared_time.h"
#include "core/comm/transport/native.h"
#include "core/comm/transport/transport.h"
#include "core/comm/work.h"
#include "core/device/device.h"
#include "core/time/message_times.h"

namespace lockstep {

/// A rank's transport, the device whose compute stream orders its messages, and the collectives
/// that its groups use.
struct Endpoint {
  Transport& transport;
  Device device;
  Collectives collectives = Collectives::built_in;
};

/// A communication stream between this rank and other ranks. The stream is in order, has its own
/// clock and one lane per direction, and follows the rules of modelled time (core/time/README.md):
///
///   A message starts when its data and the sender's lane are ready, and holds that lane for β ·
///   bytes. It arrives α later, but no sooner than β · bytes after the receiver's lane became free.
///   With shared links, SharedNetwork defines the rules, and a send may be released before its time
///   is known.
///
/// On the wall clock, a message's span begins when the message was posted or when the previous
/// message on its lane was done, whichever is later. In the trace, a message is a span on the
/// sender's lane and a span on the receiver's lane, with the message's id on both. A Channel
/// belongs to one agent at a time: the rank's own thread, or a worker. It must outlive its Works,
/// and completes them in the order in which they were issued. Sends and receives are ordered
/// separately.
class Channel {
 public:
  /// The operation that a message belongs to.
  struct Part {
    Span span;
    std::source_location where = std::source_location::current();
    std::int64_t whole = -1;  ///< bytes of the whole collective; see Route
    int root = -1;            ///< of the collective; see Route
  };

  /// `id` comes from Transport::open_channels(). `send_lane` and `receive_lane` are the names of
  /// the lanes in the trace. In the rank's recorded operations, `axis` names the purpose of the
  /// messages; it is empty if the messages are part of an operation that is recorded as a whole.
  Channel(Endpoint endpoint, int id, const std::string& send_lane, const std::string& receive_lane,
          const std::string& axis = "");

  /// Sends `data` to rank `to` of the whole run once `ready` has occurred. Throws
  /// std::invalid_argument if the view is not contiguous.
  Work send(View data, int to, Event ready, const Part& part);
  /// Receives into a contiguous view from rank `from` of the whole run. The view is no longer in
  /// use after `free`. For `combine`, see Transport::receive().
  Work receive(View into, int from, const Part& part, Combine combine, const Event& free);
  /// Receives into a view that is no longer in use once the work launched so far on the compute
  /// stream is done.
  Work receive(View into, int from, const Part& part);

  // These functions record in the trace a message that was evaluated but not sent (see
  // MetaCollectives), exactly as send() and receive() record their messages.
  void record_sent(int to, std::int64_t bytes, const Passage& passage, const Part& part);
  void record_received(int from, std::int64_t bytes, const Passage& passage, const Part& part);

  const Endpoint& endpoint() const { return endpoint_; }
  /// The route of a message to or from `peer`.
  Route route(int peer, const Part& part) const;

 private:
  class Message;
  class SharedSend;

  /// One direction of the stream. The direction's lane is added to the trace with the first
  /// message.
  struct Lane {
    std::string name;
    int id = -1;
    Picoseconds free = 0;               ///< when the lane becomes free
    std::deque<Message*> in_flight;     ///< in order of issue
    std::vector<std::uint32_t> counts;  ///< messages so far, by peer

    int id_in(Recorder& trace) { return id >= 0 ? id : id = trace.add_lane(name); }
    /// Returns and advances the number of the next message to or from `peer`.
    std::uint32_t next(int peer) { return counts[static_cast<std::size_t>(peer)]++; }
  };
  /// Holds the lanes at a fixed address, because Works refer to them even after the Channel moves.
  struct Lanes {
    Lane send, receive;
  };

  /// Like send() and receive(), but on a cluster with shared links: the time of a message is known
  /// only once other messages have been issued, perhaps after the Work has been released.
  Work send_shared(View data, int to, const Event& ready, const Part& part);
  Work receive_shared(View into, int from, const Part& part, Combine combine, const Event& free);
  /// Returns the span of the next message to or from a rank, with its id.
  Span next(MessageRole role, int peer, std::int64_t bytes, const Part& part);
  /// Records that a message is issued, if this channel's messages are recorded.
  OperationLog::Issued issued(RecordedOperation::Kind direction, int peer, const Span& span) const;

  Endpoint endpoint_;
  int id_;
  std::optional<OperationLog::Route> recorded_;  ///< set if this channel's messages are recorded
  std::unique_ptr<Lanes> lanes_;
  std::unique_ptr<SharedTime> shared_;  ///< null if messages never share a link
};

}  // namespace lockstep
