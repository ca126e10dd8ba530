#pragma once

#include <algorithm>
#include <deque>
#include <map>
#include <tuple>
#include <vector>

#include "core/replay/replay.h"

namespace lockstep {

/// The state that a replay keeps for a rank.
struct Replay::RankState {
  static constexpr std::int32_t none = -1;

  /// A message or a collective. A negative time is not known yet.
  struct Issued {
    Picoseconds start = -1;
    Picoseconds end = -1;
    std::int32_t before = none;  ///< of a message: the number of the one before it on its lane
    std::int32_t sent = none;    ///< of a receive: the sender's number of the message
  };
  struct Section {
    Picoseconds begin = 0;
    Picoseconds end = 0;
    std::size_t issued = 0, stops = 0, togethers = 0;  ///< in earlier sections
    std::vector<std::uint32_t> slowed{};               ///< positions of kernels beside collectives
  };

  const std::vector<Picoseconds>* durations = nullptr;  ///< by operation
  std::vector<Section> sections;
  std::vector<Issued> issued;
  std::vector<Picoseconds> stops;   ///< the time after each wait and common start
  std::vector<std::size_t> groups;  ///< the rank's groups, as indices in Replay::groups_
};

/// The state that a replay keeps for a group: enough to play each of its collectives again.
struct Replay::GroupState {
  GroupState(std::string name_, int channel_, std::vector<int> group, const Cluster& links,
             const Folding& folding)
      : name(std::move(name_)),
        channel(channel_),
        ranks(group),
        kept(folding.folds() ? kept_of(group, folding) : group.size()),
        cluster(links),
        player(group, links),
        members(group.size()),
        calls(kept) {}

  struct Lanes {
    Picoseconds send_free = 0, receive_free = 0;
  };
  /// A collective that not all members have called yet.
  struct Round {
    std::vector<std::uint32_t> operations;  ///< by member; in a folded run, of those kept
    std::vector<Picoseconds> ready;         ///< by member, likewise
    std::size_t arrived = 0;
  };

  /// Returns the collective as the group runs it on this cluster: an algorithm that its caller did
  /// not choose is chosen again.
  Collective settled(const Collective& recorded);

  /// In a folded run, returns a number such that the shifts rotate the members by multiples of it;
  /// that many first members are the representatives. Otherwise, returns the number of all members.
  /// Returns 0 if the shifts do anything else to this group; in that case, no member may call a
  /// collective.
  static std::size_t kept_of(const std::vector<int>& ranks, const Folding& folding);

  std::size_t member(int rank) const {
    return static_cast<std::size_t>(std::ranges::find(ranks, rank) - ranks.begin());
  }

  /// The channel of the collectives' messages (Group).
  int collectives_channel() const { return channel + 1; }

  std::string name;
  int channel;             ///< of the group's messages
  std::vector<int> ranks;  ///< by member
  std::size_t kept;        ///< members that are representatives: see kept_of()
  const Cluster& cluster;
  StepPlayer player;
  std::vector<MetaMember> members;
  /// By kept member: the member's numbers of the collectives.
  std::vector<std::vector<std::int32_t>> calls;
  std::deque<Round> rounds;  ///< in order
  std::size_t played = 0;    ///< collectives before rounds.front()
  /// The results of settled().
  std::map<std::tuple<Operation, std::int64_t, DType, Collective::Choice>, Collective> chosen;
  std::vector<Lanes> lanes;  ///< by collective, then by member: before it was played
  /// With shared links: by collective, then by member; empty if they were not kept.
  std::vector<std::vector<Passage>> passages;
};

/// Returns the messages of one member of a group in a collective.
std::vector<MetaStep> messages_of(const Collective& collective, int member, int size);
/// Returns the messages of all members of a group in a collective; `of_member` holds each member's
/// part.
std::vector<std::vector<MetaStep>> messages_of(const std::vector<Collective>& of_member);

}  // namespace lockstep
