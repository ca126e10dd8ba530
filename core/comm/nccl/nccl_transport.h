#pragma once

#include <memory>

#include "core/comm/transport/transport.h"
#include "core/device/stream.h"

namespace lockstep {

/// Creates a transport for messages and collectives over NCCL, between ranks with one GPU each. It
/// enqueues all operations on the GPU and does not block the host, so a message is matched without
/// the host noticing. `control`, the transport between the ranks' hosts (threads or MPI), carries
/// the run's own messages.
///
/// Each channel of a group has its own communicator, and so has each direction of a channel between
/// two pipeline ranks. The reason is that NCCL serializes the operations of one communicator, so on
/// a shared communicator a waiting receive would block a send that another rank waits for.
///
/// Messages of a group with no kernel launch between them are batched (ncclGroupStart), so that
/// every rank may first send to its neighbour and then receive, as with the other transports. A
/// batch is submitted before the next launch, or when the host waits for one of its messages.
///
/// A send and a receive are not checked against each other, because NCCL transfers only the bytes.
/// If a rank never arrives, an NcclWatchdog aborts the operations that wait for it.
///
/// Collective over all ranks. `compute` is the rank's own stream, and must outlive the transport.
std::unique_ptr<Transport> nccl_transport(std::unique_ptr<Transport> control, Stream& compute,
                                          double patience_seconds);

}  // namespace lockstep
