#pragma once

#include <vector>

#include "core/comm/threads/thread_fabric.h"

namespace lockstep {

/// One side of a message, as posted by its agent.
struct ThreadFabric::Message {
  enum class State { posted, copying, done, failed };
  State state = State::posted;
  Direction direction = Direction::send;
  int agent = 0;  ///< the agent that posted it
  int source = 0;
  int destination = 0;
  Route route;
  std::byte* data = nullptr;  ///< read-only for a send
  std::size_t size = 0;
  Combine combine = nullptr;
  Picoseconds departure = 0;
  std::int64_t done_nanoseconds = 0;
  GpuQueue* queue = nullptr;  ///< the agent's; null for host memory
  MarkPtr ready;              ///< on a GPU: passed once the buffer may be used
  Marks marks;
  const GpuQueue* marks_queue = nullptr;  ///< the queue on which `marks` were recorded

  /// With shared links: whether the message holds a copy of its data, so that the sender need not
  /// wait for the receiver. On the modelled clock, the sender continues without waiting, and the
  /// message's time may have passed when the receiver arrives.
  bool kept = false;
  std::vector<std::byte> copy{};

  void keep_data() {
    kept = true;
    if (data == nullptr) return;
    copy.assign(data, data + size);
    data = copy.data();
  }
  bool is_send() const { return direction == Direction::send; }
  MessageKey key() const { return {source, destination, route.channel}; }
};

}  // namespace lockstep
