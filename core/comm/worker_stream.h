#pragma once

#include <functional>
#include <optional>

#include "core/comm/channel_peers.h"
#include "core/comm/group_collectives.h"
#include "core/comm/worker.h"
#include "core/device/tensor.h"

namespace lockstep {

/// A group's communication stream on the CPU: a worker, and the channel that carries its agent's
/// messages.
class WorkerStream {
 public:
  /// Exchanges a collective's messages, and returns the event at which it ended. Runs on the
  /// worker's thread, or on the rank's own (see Worker).
  using Body = std::function<Event(ChannelPeers&)>;

  WorkerStream(const Members& members, int channel);
  /// Queues a collective that starts once `ready` has occurred. The collective receives elements
  /// into `scratch` before it adds them (see ChannelPeers). The rank's own thread releases
  /// `scratch`, in program order.
  Work queue(const Channel::Part& part, const Event& ready, Tensor scratch, Body body);

 private:
  Members members_;
  Picoseconds end_ = 0;             ///< of the last collective
  std::optional<Channel> channel_;  ///< of the worker's agent
  Worker worker_;                   ///< declared last: it uses the others until it ends
};

}  // namespace lockstep
