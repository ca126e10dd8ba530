#pragma once

#include <memory>

#include "core/comm/transport/transport.h"
#include "core/device/stream.h"

namespace lockstep {

/// Messages and collectives over NCCL, between ranks with one GPU each. Everything is enqueued on
/// the GPU and the host continues; only the GPU knows when a message was matched. `control`, the
/// transport between the ranks' hosts (threads or MPI), carries the run's own traffic.
///
/// Each group has its own communicators, and so does each direction of a pipeline's lane: NCCL
/// serializes the operations of one communicator, so a waiting receive would block a send that
/// another rank waits for.
///
/// Messages of a group with no kernel launch between them are batched (ncclGroupStart), so that
/// every rank may send to its neighbour first and then receive, as over the other transports. The
/// batch is submitted at the next launch, or when one of its messages is waited for.
///
/// The two ends of a message cannot be compared, because NCCL sends only the bytes. If a rank never
/// arrives, an NcclWatchdog aborts the operations waiting for it.
///
/// Collective over all ranks. `compute` is the rank's own stream, which outlives the transport.
std::unique_ptr<Transport> nccl_transport(std::unique_ptr<Transport> control, Stream& compute,
                                          double patience_seconds);

}  // namespace lockstep
