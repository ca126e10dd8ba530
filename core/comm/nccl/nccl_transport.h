#pragma once

#include <memory>

#include "core/comm/transport/transport.h"
#include "core/device/stream.h"

namespace lockstep {

/// Creates a transport for messages and collectives over NCCL, between ranks with one GPU each. It
/// enqueues all operations on the GPU and does not block the host, so the host does not notice when
/// a message is matched. `control`, the transport between the ranks' hosts (threads or MPI),
/// carries the run's own messages.
///
/// Each channel of a group has its own communicator. A channel between two pipeline ranks uses one
/// communicator for each direction, because NCCL serializes the operations of one communicator: a
/// pending receive would block a send that another rank is waiting for.
///
/// A group's messages are batched (ncclGroupStart) if no kernel is launched between them, so that
/// every rank may first send to its neighbour and then receive, as with the other transports. A
/// batch is submitted before the next launch, or when the host waits for one of its messages.
///
/// A send and a receive are not checked against each other, because NCCL transfers only the bytes.
/// If a rank never arrives, an NcclWatchdog aborts the operations that are waiting for it. While a
/// communicator is created or makes its connections, no call of NCCL blocks the host: the wait ends
/// if the run fails, or after `patience_seconds`.
///
/// `compute` is the rank's own stream, and must outlive the transport.
std::unique_ptr<Transport> nccl_transport(std::unique_ptr<Transport> control, Stream& compute,
                                          double patience_seconds);

}  // namespace lockstep
