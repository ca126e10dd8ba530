#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <source_location>
#include <string>

#include "core/comm/transport.h"
#include "core/device/device.h"

namespace lockstep {

/// One rank's way to the others: its transport, and the device whose compute stream work starts
/// from.
struct Endpoint {
  Transport& transport;
  Device device;
};

/// Communication that was started. Moves, does not copy. wait() makes the compute stream go on no
/// earlier than its end; the buffers belong to it until then, and must outlive it: where both are
/// members, the buffer is declared first. A Work that is dropped without wait() withdraws what has
/// not happened yet.
class Work {
 public:
  Work() = default;
  Work(Work&& other) noexcept { *this = std::move(other); }
  Work& operator=(Work&& other) noexcept;
  /// Work that waits for `pending` and then asks `finish` when it was done.
  Work(Stream& compute, Span span, std::unique_ptr<Pending> pending,
       std::function<Event(Pending&)> finish);
  /// Work whose messages have all been exchanged; it is over at `done` on its stream.
  Work(Stream& compute, Span span, Event done);

  /// Blocks until it is done; on the modelled clock the compute stream takes the later of its own
  /// time and the communication's. Time spent so is a `wait` span. Throws RunError as Pending::wait
  /// does.
  void wait();
  /// Blocks until it is done and returns when that was, without holding the compute stream up.
  Event finish();
  explicit operator bool() const { return compute_ != nullptr; }

 private:
  Stream* compute_ = nullptr;
  Span span_;
  std::unique_ptr<Pending> pending_;
  std::function<Event(Pending&)> finish_;
  Event done_;
};

/// A communication stream between this rank and others: in order, with a time of its own and a lane
/// in each direction, by the rules of modelled time (DESIGN §4):
///
///   a message starts when its data and the sender's lane are ready, holds that lane for β · bytes,
///   and has arrived α after that, but no sooner than β · bytes after the receiver's lane was free.
///
/// On the wall clock a lane's span begins when the message was posted, or when the one before it
/// was done. Every message is a pair of spans and a flow from one to the other.
class Channel {
 public:
  /// `id` is of Transport::open_channel; `send_lane` and `receive_lane` name the trace's lanes.
  Channel(Endpoint endpoint, int id, const std::string& send_lane, const std::string& receive_lane);

  /// Sends a contiguous view (std::invalid_argument for others) to rank `to` of the whole run; its
  /// data are ready at `ready`.
  Work send(View data, int to, Event ready, Span span,
            std::source_location where = std::source_location::current());
  /// Receives into a contiguous view from rank `from`.
  Work receive(View into, int from, Span span,
               std::source_location where = std::source_location::current());

  Endpoint endpoint() const { return endpoint_; }
  int id() const { return id_; }

 private:
  Route route(int peer, const Span& span, std::source_location where) const;

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
    std::vector<std::uint32_t> sent, received;  ///< messages so far, by peer: they number the flows
  };

  Endpoint endpoint_;
  int id_;
  std::unique_ptr<Lanes> lanes_;
};

}  // namespace lockstep
