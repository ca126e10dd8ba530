#pragma once

#include <algorithm>
#include <span>
#include <vector>

#include "core/comm/channel.h"
#include "core/comm/transport/peers.h"

namespace lockstep {

/// Implements Peers with messages over a Channel.
class ChannelPeers final : public Peers {
 public:
  struct Place {
    const std::vector<int>& ranks;  ///< by member: its rank in the whole run
    int rank = 0;                   ///< this member's index in `ranks`
  };
  /// The first step begins at `ready`. Incoming elements are received into `scratch` before they
  /// are added; all_reduce_scratch() returns the required size.
  ChannelPeers(Channel& channel, Place place, Channel::Part part, Event ready, View scratch)
      : Peers(place.rank, static_cast<int>(place.ranks.size())),
        channel_(channel),
        ranks_(place.ranks),
        part_(part),
        gpu_queue_(channel.endpoint().transport.gpu_queue()),
        ready_(ready.time),
        scratch_(scratch) {
    if (gpu_queue_ != nullptr) gpu_queue_->wait(ready);
  }

  void send(View out, int to) override;
  void receive(View in, int from) override;
  void receive_add(View sum, int from) override;
  void exchange(View out, int to, View in, int from) override;
  void exchange_add(View out, int to, View sum, int from) override;
  void at_once(std::span<const Transfer> transfers) override;
  void copy(View from, View into) override;
  View scratch(View like) const override { return slice(scratch_, 0, like.elements()); }
  void add_in_switch(View data) override;

  /// Waits until all sends are done, and returns the end of this member's last message. Call it
  /// after the algorithm.
  Event end();

 private:
  Work start_send(View out, int to);
  Work start_receive(View in, int from, Combine combine = nullptr);
  /// A send that has started and has not been waited for.
  struct Going {
    Work work;
    View out;
  };
  void sent(Work work);
  /// Defers the wait for a send of `out` until its elements are about to change or the collective
  /// ends, so that a member need not wait in each step for its neighbour to arrive.
  void leave(Work work, View out);
  /// Waits for the sends of elements in `into`, which are about to change.
  void release(View into);
  void received(Work work);
  /// Waits until the work is done, and returns the time at which it ended. On a GPU, makes the
  /// queue wait instead of the host.
  Picoseconds finish(Work work) const;
  /// Returns the end of this member's previous step.
  Event now() const { return {ready_, gpu_queue_ ? gpu_queue_->record() : nullptr}; }
  Queue queue() const { return gpu_queue_ ? gpu_queue_->handle() : Queue{}; }
  void add(View in, View sum);

  Channel& channel_;
  const std::vector<int>& ranks_;
  Channel::Part part_;
  GpuQueue* gpu_queue_;  ///< null on the CPU
  Picoseconds ready_;
  Picoseconds end_ = 0;
  View scratch_;
  /// In order of issue. Every wait polls all of these sends, so their number is limited.
  std::vector<Going> going_;
  static constexpr std::size_t most_going = 8;
};

}  // namespace lockstep
