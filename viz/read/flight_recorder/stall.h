#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "viz/read/flight_recorder/job.h"
#include "viz/read/flight_recorder/places.h"
#include "viz/read/flight_recorder/wait_for.h"

namespace lockstep::flight {

/// Ranks that called an operation with the same tensors.
struct SameCall {
  std::string call{};  ///< "all_reduce of [[4, 3]] Float"
  std::vector<int> ranks{};
};

/// A process group, and the first collective in it that not all members have completed.
struct StalledGroup {
  std::string title{};         ///< "'tp'", or "'tp' of ranks 2 and 3"
  std::string axis{};          ///< "tp", or the name; "" if it has none
  std::vector<int> members{};  ///< ascending
  std::string operation{};     ///< "all_reduce #42"; "" if no collective is pending
  // The members, by their progress in that collective.
  std::vector<int> completed{}, waiting{}, not_called{}, no_dump{};
  std::vector<SameCall> calls{};  ///< more than one if members called different things

  bool mismatch() const { return calls.size() > 1; }
};

/// The last call and the state of a rank.
struct StalledRank {
  enum class State : std::uint8_t {
    waiting,  ///< for other ranks
    inside,   ///< an operation is pending that all its ranks have called
    silent,   ///< no operation is pending: it computes, has stalled in its own code, or has ended
    no_dump,
  };
  int rank = 0;
  State state = State::silent;
  std::string last{};     ///< its last call: "all_reduce #41 in 'tp'"; "" if unknown
  bool completed = true;  ///< whether that call has completed
  /// Whether it waits in a group whose members no dump lists, although all ranks that are known to
  /// be members have called the operation.
  bool may_lack_members = false;
  Place place{};  ///< as far as the descriptions of groups show it
};

/// Which rank waits for which, in a run that has stalled.
struct Stall {
  std::string source{};    ///< "16 flight-recorder dumps"
  std::string evidence{};  ///< "dump" or "trace"
  std::vector<StalledRank> ranks{};
  std::vector<StalledGroup> groups{};
  std::vector<Wait> waits{};
  std::vector<Sink> sinks{};
  /// Awaited ranks that may have stalled although one of their operations is pending: they called
  /// another operation after it, and that one has completed.
  std::vector<int> unclear{};
  std::vector<std::string> notes{};

  const StalledRank* find(int rank) const;
  bool empty() const { return waits.empty(); }
};

/// Determines from the dumps which rank waits for which. Throws UsageError if the dumps come from
/// different runs.
Stall stall_of(const Job& job);

/// Completes a stall whose ranks and waits are known: finds the sinks and the unclear ranks, and
/// sets the ranks' states.
void find_awaited(Stall& stall);

}  // namespace lockstep::flight
