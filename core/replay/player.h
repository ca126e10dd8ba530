#pragma once

#include <array>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "core/comm/shared/member_collectives.h"
#include "core/comm/shared/shared_network.h"
#include "core/replay/replay_state.h"

namespace lockstep {

/// Plays the lists of all ranks: each rank continues until it waits for a time that is not known
/// yet.
class Replay::Player {
 public:
  explicit Player(Replay& replay);
  void play();

 private:
  // Values of Cursor::waits_for that are not numbers of operations.
  static constexpr std::int64_t nothing = -1;
  static constexpr std::int64_t started = -2;  ///< the time of the common start is known, but the
                                               ///< rank has not passed it
  static constexpr std::int64_t timer = -3;    ///< for all events before the rank's time
  static constexpr std::int64_t timed = -4;    ///< the timer has fired

  /// One direction of a communication stream.
  struct Lane {
    Picoseconds free = 0;
    std::int32_t last = RankState::none;  ///< the number of its last message
    int in_network = -1;                  ///< with shared links: the network's stream
    struct Receive {
      std::int32_t number;
      const RecordedOperation* operation;
    };
    std::deque<Receive> unmatched{};  ///< in order
  };
  /// A rank's position in its lists.
  struct Cursor {
    std::size_t section = 0, position = 0;
    Picoseconds time = 0;
    std::int64_t waits_for = nothing;             ///< the number of a message or collective
    std::vector<std::int32_t> collectives{};      ///< with shared links: perhaps in flight
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

  /// With shared links: one rank's messages outside collectives.
  class Messages final : public SharedNetwork::Listener {
   public:
    Messages(Player& player, int rank) : player_(player), rank_(rank) {}
    void left(int number, const Passage& passage) override { player_.ends(rank_, number, passage); }
    void arrived(int number, const Passage& passage) override;
    void reached(int) override;

   private:
    Player& player_;
    int rank_;
  };
  RankState& state(int rank) { return replay_.ranks_[static_cast<std::size_t>(rank)]; }
  Cursor& cursor(int rank) { return at_[static_cast<std::size_t>(rank)]; }
  /// In a folded run, the messages as the receiver's representative sees them.
  InFlight& in_flight(int from, int to, int channel) {
    from = run_.folding.seen_from(to, from);
    to = run_.folding.representative(to);
    return in_flight_[static_cast<std::uint64_t>(from) << 42 |
                      static_cast<std::uint64_t>(to) << 21 | static_cast<std::uint64_t>(channel)];
  }
  /// Returns the network's stream of a lane.
  int in_network(Lane& lane, int rank, int channel);
  [[noreturn]] static void refuse(const std::string& why);
  /// Refuses a message whose receiver expects another size.
  static void check_fit(int from, int to, std::int64_t sent, std::int64_t expected);
  void advance(int rank);
  /// With shared links: whether a collective of the rank is in flight at its time; nothing if the
  /// rank must wait to find out.
  std::optional<bool> is_beside_collective(int rank);
  void begin_section(int rank);
  bool wait(int rank, std::int64_t back);
  void send(int rank, const RecordedOperation& operation);
  void send_on_shared(int rank, const RecordedOperation& operation);
  void receive(int rank, const RecordedOperation& operation);
  void settle(int rank, int stream);
  void call(int rank, std::uint32_t index);
  void play_round(GroupState& group);
  /// With shared links: begins a member's part.
  void begin_call(GroupState& group, std::size_t member, std::size_t round, std::uint32_t index);
  /// Returns the messages of all members of a collective; none with shared links. Refuses members
  /// whose calls differ.
  const std::vector<std::vector<MetaStep>>& messages(GroupState& group,
                                                     const std::vector<std::uint32_t>& operations);
  /// Refuses a collective whose members differ although the folded run treats them as equal.
  static void check_folds(const GroupState& group, const Collective& collective);
  bool start_together(int rank);
  /// Records the interval of a message or collective, and resumes the rank if it waits for that
  /// operation.
  void ends(int rank, std::int32_t number, Passage passage);

  Replay& replay_;
  const RunOperations& run_;
  std::vector<Cursor> at_;  ///< by rank
  std::vector<int> open_;   ///< ranks that can go on
  std::unordered_map<std::uint64_t, InFlight> in_flight_;
  /// The messages of a collective, by the members' operations.
  std::map<std::vector<std::uint32_t>, std::vector<std::vector<MetaStep>>> messages_;
  std::vector<int> starting_;     ///< ranks that wait for a common start
  std::size_t played_ranks_ = 0;  ///< those that have operations

  // With shared links.
  std::optional<SharedNetwork> network_;
  double beside_collectives_ = 1;    ///< SharedLinks::kernels_beside_collectives
  std::vector<Messages> listeners_;  ///< by rank
  std::map<const GroupState*, std::vector<std::unique_ptr<MemberCollectives>>>
      plays_;  ///< by member
  /// A member's messages, by operation, member, size of the group, algorithm and members per node.
  std::map<std::array<std::size_t, 5>, std::shared_ptr<const std::vector<MetaStep>>> steps_;
  std::size_t passages_ = 0;  ///< kept
};

}  // namespace lockstep
