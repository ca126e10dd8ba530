#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "core/flight_recorder/job.h"
#include "core/flight_recorder/wait_for.h"

namespace lockstep::flight {

/// Ranks that called an operation with the same tensors.
struct SameCall {
  std::string call{};  ///< "all_reduce of [[4, 3]] Float"
  std::vector<int> ranks{};
};

/// A process group, and its first collective that not all members have completed.
struct StalledGroup {
  std::string title{};         ///< "'tp'", or "'tp' of ranks 2 and 3"
  std::string axis{};          ///< "tp", or the name; "" if it has none
  std::vector<int> members{};  ///< ascending
  bool inferred = false;       ///< see ProcessGroup
  std::string operation{};     ///< "all_reduce #42"; "" if no collective is pending
  std::string last{};          ///< the last collective that all members have completed, or ""
  // The members, by what they did in that collective.
  std::vector<int> completed{}, waiting{}, not_called{}, no_dump{};
  std::vector<SameCall> calls{};  ///< more than one if members called different things

  bool mismatch() const { return calls.size() > 1; }
};

/// What a rank is doing.
struct StalledRank {
  enum class State : std::uint8_t {
    waiting,  ///< for other ranks
    inside,   ///< an operation that all its ranks have called is pending
    silent,   ///< no operation is pending: it computes, has stalled in its own code, or has ended
    no_dump,
  };
  int rank = 0;
  State state = State::silent;
  std::string last{};     ///< its last call: "all_reduce #41 in 'tp'"; "" if unknown
  bool completed = true;  ///< whether that call has completed
  /// Whether it waits in a group whose members no dump lists, and all that are known have come.
  bool may_lack_members = false;
  /// Its position along each axis of the mesh, as far as the groups' descriptions show.
  std::vector<std::pair<std::string, int>> place{};
};

/// Who waits for whom, in a run that has stalled.
struct Stall {
  std::string source{};    ///< what it was read from: "16 flight-recorder dumps"
  std::string evidence{};  ///< "dump" or "trace"
  std::vector<StalledRank> ranks{};
  std::vector<StalledGroup> groups{};
  std::vector<Wait> waits{};
  std::vector<Sink> sinks{};
  /// Awaited ranks that may have stalled although an operation of theirs is pending: they called
  /// something after it, and that has completed.
  std::vector<int> unclear{};
  std::vector<std::string> notes{};

  const StalledRank* find(int rank) const;
  bool empty() const { return waits.empty(); }
};

/// Finds out who waits for whom from the dumps. Throws UsageError if they come from different runs.
Stall stall_of(const Job& job);

/// Completes a stall whose ranks and waits are known: finds the sinks and the unclear ranks, and
/// sets the ranks' states.
void find_awaited(Stall& stall);

/// Names in one sentence the ranks that everything waits for, or says why there are none. Further
/// sentences say how each was found. Each element is a paragraph; the first is the sentence.
std::vector<std::string> stall_sentences(const Stall& stall);

/// The rows of a table of the groups in which a collective is pending, or a send or receive waits
/// for its other side, below a row of titles; empty if there are none.
std::vector<std::vector<std::string>> group_table(const Stall& stall);
/// A rank's position on the mesh: "pp1 tp0"; "" if unknown.
std::string place_words(const StalledRank& rank);
/// A rank's last call, and whether it has completed.
std::string last_words(const StalledRank& rank);
/// The ranks that a rank waits for directly; "-" if there are none.
std::string waits_words(const Stall& stall, int rank);

/// The sentences, the table of groups, the table of ranks and the notes, for a terminal.
std::string stall_summary(const Stall& stall);

}  // namespace lockstep::flight
