#pragma once

#include <algorithm>
#include <vector>

#include "core/comm/channel.h"

namespace lockstep {

/// Elements [first, first + count) of a contiguous view, flat.
View slice(View data, std::int64_t first, std::int64_t count);
/// Chunk i of N of a view's elements: the first n mod N chunks have one element more.
View chunk_of(View data, int i, int count);

/// A group as a collective's algorithm sees it: who one is, and messages between members, one step
/// after another. A step begins when the one before it is over here.
class Peers {
 public:
  struct Place {
    const std::vector<int>& ranks;  ///< the members, as numbered in the whole run
    int rank = 0;                   ///< this one's place among them
  };
  /// The first step begins at `ready`. `scratch` holds what comes in before it is added, as
  /// all_reduce_scratch says.
  Peers(Channel& channel, Place place, Channel::Part part, Event ready, View scratch)
      : channel_(channel),
        place_(place),
        part_(part),
        lane_(channel.endpoint().transport.lane()),
        ready_(ready.time),
        scratch_(scratch) {
    if (lane_ != nullptr) lane_->wait(ready);
  }

  int rank() const { return place_.rank; }
  int size() const { return static_cast<int>(place_.ranks.size()); }
  int neighbour(int offset) const { return (rank() + offset + size()) % size(); }

  /// Returns when the receiver has taken it.
  void send(View out, int to);
  void receive(View in, int from);
  /// sum += what comes. Narrow elements are added in f32 and each sum is rounded: a ring of N
  /// rounds N - 1 times.
  void receive_add(View sum, int from);
  /// Sends to one and receives from another at once.
  void exchange(View out, int to, View in, int from);
  /// The same, and what comes is added to `sum`; `out` and `sum` may be the same elements.
  void exchange_add(View out, int to, View sum, int from);
  /// This member's own elements, from one place to another.
  void copy(View from, View into) const;

  /// When the last of this member's messages was over.
  Event end() const { return {std::max(ready_, end_), lane_ ? lane_->record() : nullptr}; }

 private:
  Work start_send(View out, int to);
  Work start_receive(View in, int from, Combine combine = nullptr);
  void sent(Work work);
  void received(Work work);
  /// Waits until it is done, or, on a GPU, lets the lane wait.
  Picoseconds finish(Work work) const;
  /// Where this member stands.
  Event now() const { return {ready_, lane_ ? lane_->record() : nullptr}; }
  Queue queue() const { return lane_ ? lane_->queue() : Queue{}; }
  void add(View in, View sum) const;

  Channel& channel_;
  Place place_;
  Channel::Part part_;
  GpuLane* lane_;  ///< null on the CPU
  Picoseconds ready_;
  Picoseconds end_ = 0;
  View scratch_;
};

}  // namespace lockstep
