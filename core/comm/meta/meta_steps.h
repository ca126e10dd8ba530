#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "core/comm/transport/peers.h"
#include "core/comm/transport/route.h"
#include "core/time/message_times.h"

namespace lockstep {

/// One message of a collective, from the point of view of its sender or its receiver.
struct MetaStep {
  Direction direction = Direction::send;
  int peer = 0;  ///< the other member
  std::int64_t bytes = 0;
};

/// Implements Peers without sending anything: records, in order, the messages that a member would
/// send and receive. An exchange becomes a send followed by a receive, the order in which
/// ChannelPeers starts them.
class StepRecorder final : public Peers {
 public:
  StepRecorder(int rank, int size, std::vector<MetaStep>& steps)
      : Peers(rank, size), steps_(steps) {}

  void send(View out, int to) override { note(Direction::send, to, out); }
  void receive(View in, int from) override { note(Direction::receive, from, in); }
  void receive_add(View sum, int from) override { note(Direction::receive, from, sum); }
  void exchange(View out, int to, View in, int from) override {
    send(out, to);
    receive(in, from);
  }
  void exchange_add(View out, int to, View sum, int from) override { exchange(out, to, sum, from); }
  void at_once(std::span<const Transfer> transfers) override {
    for (const bool sends : {true, false})
      for (const auto& [kind, data, peer] : transfers)
        if ((kind == Transfer::Kind::send) == sends)
          note(sends ? Direction::send : Direction::receive, peer, data);
  }
  void copy(View, View) override {}
  View scratch(View like) const override { return {nullptr, {like.elements()}, like.dtype}; }
  /// A member's messages to and from the switch are messages to and from itself.
  void add_in_switch(View data) override { exchange(data, rank(), data, rank()); }

 private:
  void note(Direction direction, int peer, View data) {
    steps_.push_back({direction, peer, static_cast<std::int64_t>(data.bytes())});
  }

  std::vector<MetaStep>& steps_;
};

/// A message whose size differs from the size that its receiver expects. This is impossible if all
/// members agree.
struct Misfit {
  int sender = 0, receiver = 0;  ///< members
  std::int64_t sent = 0, expected = 0;
};
/// Returns the first misfit in a collective whose members have these steps.
std::optional<Misfit> misfit_of(const std::vector<std::span<const MetaStep>>& steps);

/// Throws UsageError unless the switches of `cluster` can add, and join all of `ranks`.
void check_switch(const Cluster& cluster, const std::vector<int>& ranks);

/// The state of one member of a group. Kept from one collective to the next.
struct MetaMember {
  /// Begins a new collective. Keeps the times at which the lanes become free. `steps_` must outlive
  /// the call of play().
  void begin(std::span<const MetaStep> steps_, Picoseconds ready_, bool traced_) {
    steps = steps_;
    passages.clear();
    bytes_sent.reset();
    ready = ready_;
    traced = traced_;
  }

  std::span<const MetaStep> steps;
  Picoseconds ready = 0;  ///< when the member's next step may begin
  bool traced = false;    ///< whether play() must fill in the passages
  // The times at which the member's lanes become free; play() advances these times.
  Picoseconds send_free = 0;
  Picoseconds receive_free = 0;
  // Results of play().
  Picoseconds end = 0;
  std::optional<std::int64_t> bytes_sent;  ///< empty if the member sends no message
  std::vector<Passage> passages;           ///< one for each step
};

/// Computes the modelled times of the steps of all members of a group, by the rules that Channel
/// and ChannelPeers follow.
class StepPlayer {
 public:
  /// `ranks` holds each member's rank in the whole run.
  StepPlayer(std::vector<int> ranks, Cluster cluster);

  /// Fills in the members' results. Throws Misfit if sizes differ, std::logic_error if a member
  /// expects a message that no member sends, and UsageError if the cluster's switches can't add.
  void play(std::vector<MetaMember>& members);

 private:
  /// A message that has been sent but not received; an element of a linked list.
  struct Sent {
    Picoseconds departure = 0;
    std::int64_t bytes = 0;
    int next = none;  ///< index in sent_
  };
  /// The messages in flight from one member to another, oldest first.
  struct InFlight {
    int first = none, last = none;  ///< indices of sent_
  };
  static constexpr int none = -1;

  InFlight& in_flight(int from, int to) {
    return in_flight_[static_cast<std::size_t>(from) * ranks_.size() +
                      static_cast<std::size_t>(to)];
  }
  /// If the steps are a sum in the switch, plays it for all members at once and returns true;
  /// otherwise, returns false.
  bool play_in_switch(std::vector<MetaMember>& members) const;
  /// Plays the member's steps until it needs a message that has not been sent.
  void advance(std::vector<MetaMember>& members, int member);

  std::vector<int> ranks_;
  Cluster cluster_;
  std::vector<InFlight> in_flight_;  ///< [sender][receiver]; allocated by the first collective
  std::vector<Sent> sent_;
  std::vector<std::size_t> next_;  ///< by member: index of the next step
  std::vector<int> waits_for_;     ///< by member: the sender that the member waits for, or none
  std::vector<int> open_;          ///< members that can continue
};

}  // namespace lockstep
