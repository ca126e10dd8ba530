#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace lockstep::flight {

/// Why a rank can't continue before another one does something.
enum class WaitKind : std::uint8_t {
  not_called,   ///< the other has not called the collective, or not the other side of the message
  no_dump,      ///< all ranks whose dumps are known have called it; the other's dump is missing
  not_started,  ///< the other has called it, but its device has not started it
  mismatch,     ///< the other called something else
};

/// Ranks wait in one operation for other ranks: each of `from` for all of `to`.
struct Wait {
  std::vector<int> from, to;  ///< ranks, ascending; disjoint
  int group = -1;             ///< index in Stall::groups, or -1
  std::string operation;      ///< "all_reduce #42", "recv from rank 3"
  WaitKind kind = WaitKind::not_called;
  /// Whether the ranks called something else after this operation, so that their programs did not
  /// stop there.
  bool overlapped = false;
  /// Whether the waiting ranks' devices have not started the operation, although they have started
  /// others: they may still be behind earlier work.
  bool queued = false;
};

/// Ranks that others wait for, and that wait for nobody outside.
struct Sink {
  std::vector<int> ranks;    ///< ascending; more than one: they wait for one another, a cycle
  std::vector<int> waiters;  ///< all ranks that wait for them, directly or not; ascending
  /// How the sink was found: by all waits; or, because all waits lead into a cycle, without those
  /// of queued operations, or without those of overlapped operations.
  enum class Without : std::uint8_t { nothing, queued, overlapped } without = Without::nothing;
  bool cycle() const { return ranks.size() > 1; }
};

/// Returns the sinks of the wait-for graph that somebody waits for, by their first rank: the
/// strongly connected components without an edge to another component. A component of several ranks
/// is examined again without the waits that may not hold its ranks up, which may leave single
/// ranks. Time is linear in the number of ranks in `waits`, apart from sorting.
std::vector<Sink> find_sinks(const std::vector<Wait>& waits);

}  // namespace lockstep::flight
