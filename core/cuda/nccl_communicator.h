#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <vector>

#include "core/comm/transport/gpu_communicator.h"

namespace lockstep::nccl {

// core/cuda's interface to NCCL. In a build without NCCL, make_id and join throw
// std::runtime_error.

/// Whether this build has NCCL.
extern const bool is_here;

/// The bytes of an ncclUniqueId. NCCL opens a port on the calling rank, to which the others
/// connect.
std::vector<std::byte> make_id();

/// The calling rank's handle to a new communicator, on GPU `gpu`. All ranks call it together; it
/// returns when all have. NCCL rejects two ranks on one GPU.
std::unique_ptr<GpuCommunicator> join(int gpu, const std::vector<std::byte>& id, int ranks,
                                      int rank);

/// The loaded library's version, "NCCL 2.28.9", or "no NCCL".
std::string version();

}  // namespace lockstep::nccl
