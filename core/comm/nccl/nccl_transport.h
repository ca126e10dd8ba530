#pragma once

#include <memory>

#include "core/comm/transport/transport.h"
#include "core/device/stream.h"

namespace lockstep {

/// Messages and collectives by NCCL, between ranks that have a GPU each. Everything is put on
/// queues of the GPU and the host goes on; that a message was matched, only the GPU knows.
/// `control`, the transport between the ranks' hosts (threads' or MPI's), carries what is the run's
/// own.
///
/// Each group has communicators of its own, and so has each direction of a pipeline's lane: on one
/// communicator NCCL does one thing after another, and a receive that waits would hold up a send
/// that somebody else waits for.
///
/// Messages of a group that are begun with no kernel launched between them go on together
/// (ncclGroupStart): so every rank may send to its neighbour first and receive then, as over the
/// other transports. They leave with the next launch, or when one of them is waited for.
///
/// What one rank takes a message for can't be compared with what the other does: NCCL sends bytes
/// alone. Where a rank does not come, an NcclWatchdog ends what waits for it.
///
/// All ranks make it at the same time. `compute` is the rank's own stream, which outlives it.
std::unique_ptr<Transport> nccl_transport(std::unique_ptr<Transport> control, Stream& compute,
                                          double patience_seconds);

}  // namespace lockstep
