#pragma once

#include <functional>
#include <memory>

#include "core/comm/transport/route.h"
#include "core/time/message_times.h"

namespace lockstep {

/// A stream of an agent in the SharedNetwork of its run.
class SharedTime {
 public:
  /// A message whose time may not be known yet.
  class Message {
   public:
    virtual ~Message() = default;
    /// Blocks until the time is known, and returns the time at which the message frees this side's
    /// lane. Throws RunError as Pending::wait() does.
    virtual Picoseconds wait() = 0;
  };
  /// Called once, when the time is known: before wait() returns, perhaps on another rank's thread
  /// under the fabric's lock, and perhaps after the Work has been destroyed. It may only use
  /// objects that live as long as the run, such as the rank's Recorder.
  using Known = std::function<void(const Passage&)>;

  virtual ~SharedTime() = default;
  /// Posts one side of a message.
  virtual std::shared_ptr<Message> send(const Route& route, const OutgoingMessage& message,
                                        Known known) = 0;
  virtual std::shared_ptr<Message> receive(const Route& route, Known known) = 0;
};

}  // namespace lockstep
