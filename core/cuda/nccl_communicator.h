#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <vector>

#include "core/comm/transport/gpu_communicator.h"

namespace lockstep::nccl {

// What core/cuda makes of NCCL. In a build without it, make_id and join throw
// std::runtime_error.

/// Whether this is a build with it.
extern const bool is_here;

/// ncclUniqueId's bytes. Where one rank asks, NCCL opens a port for the others to come to.
std::vector<std::byte> make_id();

/// The calling rank's end of a new communicator, with GPU `gpu`. All ranks call it together; it
/// returns when all have. Two ranks on one GPU is an error (NCCL's, and so here).
std::unique_ptr<GpuCommunicator> join(int gpu, const std::vector<std::byte>& id, int ranks,
                                      int rank);

/// "NCCL 2.28.9", of the library that is loaded, or "no NCCL".
std::string version();

}  // namespace lockstep::nccl
