#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "viz/read/flight_recorder/dump.h"

namespace lockstep::flight {

/// A collective, send or receive that a rank called.
struct Call {
  std::string_view group, description;  ///< of the process group
  std::string_view operation;           ///< "all_reduce", "send"
  std::int64_t sequence = -1;           ///< counts the group's collectives; -1: send or receive
  std::int64_t pg_id = -1;
  Tensors input, output;  ///< empty if several operations were coalesced
  int operations = 1;     ///< the number that were coalesced into this call
  /// For sends and receives: ranks in the group; -1: unknown, or any rank may send.
  int source = -1, destination = -1;
  bool is_p2p = false;
  bool sends = false;
  bool pending = false;     ///< not completed
  bool started = false;     ///< by the device
  bool overlapped = false;  ///< pending, but the rank's last call has completed

  /// Returns "all_reduce #42", or "send 0->1" with ranks in the group.
  std::string words() const;
};

/// The calls of a rank, in order.
struct Calls {
  std::vector<Call> all;
  /// Whether the dump records which pending operations a device has started. Dumps of backends
  /// without a device (gloo) do not.
  bool knows_started = false;
};

/// Derives the calls from a dump's entries. The place that records whether an operation has
/// completed depends on torch's version and on the backend: the entry's state, its completion time,
/// the group's status or, for backends that never update the state (gloo), `retired`. torch never
/// updates the states of the operations in a coalesced batch, so they get the state of the entry
/// that ends the batch.
Calls calls_of(const Dump& dump);

}  // namespace lockstep::flight
