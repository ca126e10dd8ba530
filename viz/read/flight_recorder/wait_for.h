#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace lockstep::flight {

/// Why a rank can't continue before another one does something.
enum class WaitKind : std::uint8_t {
  not_called,   ///< the other has not called the collective, or its side of the message
  no_dump,      ///< all ranks with dumps have called it, but the other's dump is missing
  not_started,  ///< the other has called it, but its device has not started it
  mismatch,     ///< the other called something else
};

/// Ranks wait in one operation for other ranks: each of `from` for all of `to`.
struct Wait {
  std::vector<int> from, to;  ///< ranks, ascending; disjoint, neither empty
  int group = -1;             ///< index in Stall::groups, or -1
  std::string operation;      ///< "all_reduce #42", "send" or "recv"
  bool is_p2p = false;        ///< whether the operation is a send or a receive
  WaitKind kind = WaitKind::not_called;
  /// Whether the ranks called something else after this operation, so that their programs did not
  /// stop there.
  bool overlapped = false;
  /// Whether the waiting ranks' devices have not started the operation, although they have started
  /// others: earlier work may still delay it.
  bool queued = false;
};

/// Ranks that others wait for, and that wait for no rank outside the sink.
struct Sink {
  std::vector<int> ranks;    ///< ascending; more than one: they wait for one another, a cycle
  std::vector<int> waiters;  ///< all ranks that wait for them, directly or not; ascending
  /// The waits that were disregarded to find the sink: none; or, because all waits lead into a
  /// cycle, those in queued operations or those in overlapped operations.
  enum class Without : std::uint8_t { nothing, queued, overlapped } without = Without::nothing;
  bool cycle() const { return ranks.size() > 1; }
};

/// Returns the sinks of the wait-for graph that some rank waits for, sorted by their first rank. A
/// sink is a strongly connected component without an edge to another component. If a component has
/// several ranks, searches it again for single ranks, disregarding the waits that may not block its
/// ranks. Time is linear in the number of ranks in `waits`, apart from sorting.
std::vector<Sink> find_sinks(const std::vector<Wait>& waits);

/// An edge of a cycle: a rank waits for the rank of the next edge, the last one for the first.
struct CycleEdge {
  int rank = 0;
  const Wait* wait = nullptr;
};

/// Returns a shortest cycle through a rank; empty if there is none.
std::vector<CycleEdge> shortest_cycle(const std::vector<Wait>& waits, int rank);

}  // namespace lockstep::flight
