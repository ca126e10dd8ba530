#pragma once

#include <algorithm>
#include <cstdint>
#include <span>

#include "kernels/view.h"

namespace lockstep {

/// Returns elements [first, first + count) of a contiguous view, as a flat view.
View slice(const View& data, std::int64_t first, std::int64_t count);
/// Returns chunk i of `count` chunks of the view's n elements. The first n mod `count` chunks have
/// one extra element.
View chunk_of(const View& data, int i, int count);

/// The view of a group that a collective's algorithm gets: this member's index, and messages to and
/// from the other members. Each call is one step, which begins when this member's previous step has
/// ended. ChannelPeers sends the messages; StepRecorder only records them, for ranks on the meta
/// device.
class Peers {
 public:
  virtual ~Peers() = default;

  int rank() const { return rank_; }
  int size() const { return size_; }
  int neighbour(int offset) const { return (rank_ + offset + size_) % size_; }

  /// Sends `out` to another member. Returns when the receiver has matched the message.
  virtual void send(View out, int to) = 0;
  virtual void receive(View in, int from) = 0;
  /// Adds the incoming elements to `sum`. 16-bit elements are added in f32 and each sum is rounded,
  /// so a ring of N ranks rounds N - 1 times.
  virtual void receive_add(View sum, int from) = 0;
  // The next three functions return when their receives are done. Their sends may still be in
  // flight; the elements being sent do not change until their sends are done, and the collective
  // waits for all sends.

  /// Sends to one member and receives from another at the same time.
  virtual void exchange(View out, int to, View in, int from) = 0;
  /// Sends to one member and at the same time adds another member's elements to `sum`, as
  /// receive_add() does. `out` and `sum` may be the same view.
  virtual void exchange_add(View out, int to, View sum, int from) = 0;
  /// One message of at_once().
  struct Transfer {
    enum class Kind : std::uint8_t { send, receive, receive_add };
    Kind kind;
    View data;
    int peer;
  };
  /// Exchanges several messages in one step: starts all sends, then receives in the given order.
  /// Several receive_add may have the same `data`; otherwise, the views must not overlap.
  virtual void at_once(std::span<const Transfer> transfers) = 0;
  /// Copies this member's own elements from one place to another.
  virtual void copy(View from, View into) = 0;
  /// Returns scratch memory with the size and type of `like`, which the collective's caller has
  /// allocated. Algorithms that add must not use it.
  virtual View scratch(View like) const = 0;
  /// Sends `data` to the switch, which adds all members' elements, and receives the sums. Works
  /// only on the meta device, where it models the cost (Algorithm::in_switch); elsewhere, throws
  /// std::logic_error.
  virtual void add_in_switch(View data) = 0;

 protected:
  /// Member `rank` of `size`.
  Peers(int rank, int size) : rank_(rank), size_(size) {}

 private:
  int rank_;
  int size_;
};

}  // namespace lockstep
