#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <string>
#include <unordered_map>
#include <vector>

#include "core/replay/replay_state.h"

namespace lockstep {

/// Plays the lists of all ranks: each rank goes on until it waits for something that is not known
/// yet.
class Replay::Player {
 public:
  explicit Player(Replay& replay) : replay_(replay), run_(replay.run_), at_(run_.ranks.size()) {}
  void play();

 private:
  // Values of Cursor::waits_for that are no numbers.
  static constexpr std::int64_t nothing = -1;
  static constexpr std::int64_t started = -2;  ///< the common start has a time, but is not passed

  /// One direction of a communication stream.
  struct Lane {
    Picoseconds free = 0;
    std::int32_t last = RankState::none;  ///< the number of its last message
    struct Receive {
      std::int32_t number;
      const RecordedOperation* operation;
    };
    std::deque<Receive> unmatched{};  ///< in order
  };
  /// Where a rank is in its lists.
  struct Cursor {
    std::size_t section = 0, position = 0;
    Picoseconds time = 0;
    std::int64_t waits_for = nothing;             ///< the number of a message or collective
    std::unordered_map<int, Lane> send, receive;  ///< by stream
  };
  /// The messages between two ranks on a channel that have been sent, but not received.
  struct InFlight {
    struct Sent {
      std::int32_t number;
      std::int64_t bytes;
    };
    std::deque<Sent> sent;
    int waiting = -1;  ///< the stream on which a receive waits for the next message
  };

  RankState& state(int rank) { return replay_.ranks_[static_cast<std::size_t>(rank)]; }
  Cursor& cursor(int rank) { return at_[static_cast<std::size_t>(rank)]; }
  InFlight& in_flight(int from, int to, int channel) {
    return in_flight_[static_cast<std::uint64_t>(from) << 42 |
                      static_cast<std::uint64_t>(to) << 21 | static_cast<std::uint64_t>(channel)];
  }
  [[noreturn]] static void refuse(const std::string& why);
  /// Refuses a time beyond which sums might overflow.
  static void check(Picoseconds time);

  void advance(int rank);
  void begin_section(int rank);
  bool wait(int rank, std::int64_t back);
  void send(int rank, const RecordedOperation& operation);
  void receive(int rank, const RecordedOperation& operation);
  void settle(int rank, int stream);
  void call(int rank, std::uint32_t index);
  void play_round(GroupState& group);
  bool start_together(int rank);
  /// Notes the interval of a message or collective, and lets the rank go on if it waits for that.
  void ends(int rank, std::int32_t number, Passage passage);

  Replay& replay_;
  const RunOperations& run_;
  std::vector<Cursor> at_;  ///< by rank
  std::vector<int> open_;   ///< ranks that can go on
  std::unordered_map<std::uint64_t, InFlight> in_flight_;
  /// By the members' operations: the messages of a collective.
  std::map<std::vector<std::uint32_t>, std::vector<std::vector<MetaStep>>> messages_;
  std::vector<int> starting_;  ///< ranks that wait for a common start
};

}  // namespace lockstep
