#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "core/comm/transport/peers.h"
#include "core/comm/transport/route.h"
#include "core/time/message_times.h"

namespace lockstep {

/// One message of a collective, from the point of view of one of its two members.
struct MetaStep {
  Direction direction = Direction::send;
  int peer = 0;  ///< the other member
  std::int64_t bytes = 0;
};

/// Peers that send nothing: they record, in order, the messages that a member would send and
/// receive. An exchange becomes a send, then a receive, the order in which ChannelPeers starts
/// them.
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
  void copy(View, View) override {}

 private:
  void note(Direction direction, int peer, View data) {
    steps_.push_back({direction, peer, static_cast<std::int64_t>(data.bytes())});
  }

  std::vector<MetaStep>& steps_;
};

/// A member of a group, with its lane times, for evaluating collectives one after another.
struct MetaMember {
  /// Begins recording a new collective. The lane times are kept.
  void begin(Picoseconds ready_, bool traced_) {
    steps.clear();
    passages.clear();
    bytes_sent.reset();
    ready = ready_;
    traced = traced_;
  }

  std::vector<MetaStep> steps;
  Picoseconds ready = 0;  ///< when its next step may begin
  bool traced = false;    ///< whether passages are needed
  // When its lanes become free; play() advances them.
  Picoseconds send_free = 0;
  Picoseconds receive_free = 0;
  // Results of play().
  Picoseconds end = 0;
  std::optional<std::int64_t> bytes_sent;  ///< empty if it sends no message
  std::vector<Passage> passages;           ///< one for each step
};

/// Plays the steps of all members of a group against one another in modelled time, by the rules
/// that Channel and ChannelPeers follow.
class StepPlayer {
 public:
  /// `ranks` are the members, by their ranks in the whole run.
  StepPlayer(std::vector<int> ranks, Cluster cluster);

  /// A message whose size differs from what its receiver expects; impossible if all members agree.
  struct Misfit {
    int sender = 0, receiver = 0;  ///< members
    std::int64_t sent = 0, expected = 0;
  };
  /// Throws Misfit if sizes differ, and std::logic_error if a member expects a message that no
  /// member sends.
  void play(std::vector<MetaMember>& members);

 private:
  /// A message in flight, sent but not yet received; a linked list per sender and receiver.
  struct Sent {
    Picoseconds departure = 0;
    std::int64_t bytes = 0;
    int next = none;
  };
  struct InFlight {
    int first = none, last = none;  ///< indices of sent_
  };
  static constexpr int none = -1;

  InFlight& in_flight(int from, int to) {
    return in_flight_[static_cast<std::size_t>(from) * ranks_.size() +
                      static_cast<std::size_t>(to)];
  }
  /// Plays the member's steps until it needs a message that has not been sent.
  void advance(std::vector<MetaMember>& members, int member);

  std::vector<int> ranks_;
  Cluster cluster_;
  std::vector<InFlight> in_flight_;  ///< [sender][receiver]; allocated by the first collective
  std::vector<Sent> sent_;
  std::vector<std::size_t> next_;  ///< by member: its next step
  std::vector<int> waits_for_;     ///< by member: the sender it waits for, or none
  std::vector<int> open_;          ///< members that can continue
};

}  // namespace lockstep
