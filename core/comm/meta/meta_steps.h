#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "core/comm/transport/peers.h"
#include "core/time/message_times.h"

namespace lockstep {

/// One message of a collective, as one of its two members sees it.
struct MetaStep {
  bool sends = false;  ///< otherwise it receives
  int peer = 0;        ///< the other member
  std::int64_t bytes = 0;
};

/// Peers that send nothing: they record which messages a member would send and receive, in order.
/// An exchange becomes a send and then a receive, the order in which ChannelPeers starts them.
class StepRecorder final : public Peers {
 public:
  StepRecorder(int rank, int size, std::vector<MetaStep>& steps)
      : Peers(rank, size), steps_(steps) {}

  void send(View out, int to) override { note(true, to, out); }
  void receive(View in, int from) override { note(false, from, in); }
  void receive_add(View sum, int from) override { note(false, from, sum); }
  void exchange(View out, int to, View in, int from) override {
    send(out, to);
    receive(in, from);
  }
  void exchange_add(View out, int to, View sum, int from) override { exchange(out, to, sum, from); }
  void copy(View, View) override {}

 private:
  void note(bool sends, int peer, View data) {
    steps_.push_back({sends, peer, static_cast<std::int64_t>(data.bytes())});
  }

  std::vector<MetaStep>& steps_;
};

/// A member of a group whose collectives are evaluated one after another.
struct MetaMember {
  /// Begins a collective, whose steps are then to be recorded. The lanes stay as they are.
  void begin(Picoseconds ready_, bool traced_) {
    steps.clear();
    passages.clear();
    bytes_sent.reset();
    ready = ready_;
    traced = traced_;
  }

  std::vector<MetaStep> steps;
  Picoseconds ready = 0;  ///< when its next step may begin
  bool traced = false;    ///< whether passages are wanted
  // Its lanes are free from these times on; play() moves them on.
  Picoseconds send_free = 0;
  Picoseconds receive_free = 0;
  // Results of play().
  Picoseconds end = 0;
  std::optional<std::int64_t> bytes_sent;  ///< nothing if it sends no message
  std::vector<Passage> passages;           ///< one for each step
};

/// Plays the steps of all members of a group against one another in modelled time, by the rules
/// that Channel and ChannelPeers follow.
class StepPlayer {
 public:
  /// `ranks` are the members, as numbered in the whole run.
  StepPlayer(std::vector<int> ranks, Cluster cluster);

  /// A message whose receiver expects another size. There is none if all members agree.
  struct Misfit {
    int sender = 0, receiver = 0;  ///< members
    std::int64_t sent = 0, expected = 0;
  };
  /// Throws Misfit; throws std::logic_error if a member expects a message that nobody sends.
  void play(std::vector<MetaMember>& members);

 private:
  /// A message that was sent and not yet received; messages of one sender and receiver are a list.
  struct Sent {
    Picoseconds departure = 0;
    std::int64_t bytes = 0;
    int next = none;
  };
  struct Line {
    int first = none, last = none;  ///< indices of sent_
  };
  static constexpr int none = -1;

  Line& line(int from, int to) {
    return lines_[static_cast<std::size_t>(from) * ranks_.size() + static_cast<std::size_t>(to)];
  }
  /// Plays the member's steps until it needs a message that has not been sent.
  void advance(std::vector<MetaMember>& members, int member);

  std::vector<int> ranks_;
  Cluster cluster_;
  std::vector<Line> lines_;  ///< [sender][receiver]; made for the first collective
  std::vector<Sent> sent_;
  std::vector<std::size_t> next_;  ///< by member: its next step
  std::vector<int> waits_for_;     ///< by member: whose message it needs, or none
  std::vector<int> open_;          ///< members that can go on
};

}  // namespace lockstep
