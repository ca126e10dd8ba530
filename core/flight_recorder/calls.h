#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "core/flight_recorder/dump.h"

namespace lockstep::flight {

/// A collective that a rank called, or one of its sends or receives.
struct Call {
  std::string_view group, description;  ///< of the process group
  std::string_view operation;           ///< "all_reduce", "send"
  std::int64_t sequence = -1;           ///< of the group's collectives; -1 for sends and receives
  std::int64_t pg_id = -1;
  std::int64_t created_ns = -1;
  Tensors input, output;  ///< empty if the collective consists of several operations
  int operations = 1;     ///< that were coalesced into the collective
  /// For sends and receives: ranks in the group, -1 if any rank may send.
  int source = -1, destination = -1;
  bool is_p2p = false;
  bool sends = false;
  bool pending = false;     ///< not completed
  bool started = false;     ///< by the device
  bool overlapped = false;  ///< pending, but the rank's last call has completed

  /// Returns "all_reduce #42", or "send 0->1" with the ranks in the group.
  std::string words() const;
};

/// What a rank called, in order.
struct Calls {
  std::vector<Call> all;
  /// Whether the dump says which pending operations a device has started. Backends without a device
  /// (gloo) do not.
  bool knows_started = false;
};

/// Derives the calls from a dump's entries. Whether an operation has completed is stated in several
/// places, depending on torch's version and on the backend: in the entry's state, in its time of
/// completion, in the group's status and, for backends that never update the state (gloo), in
/// `retired`. Operations of a coalesced batch, whose own states torch never updates, have the state
/// of the entry that ends the batch.
Calls calls_of(const Dump& dump);

}  // namespace lockstep::flight
