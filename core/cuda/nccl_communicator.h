#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <vector>

#include "core/comm/transport/gpu_communicator.h"
#include "core/device/gpu.h"

namespace lockstep::nccl {

// core/cuda's interface to NCCL. In a build without NCCL, make_id() and join() throw
// std::runtime_error.

/// Whether this build includes NCCL.
extern const bool is_here;

/// Returns the bytes of a new ncclUniqueId. NCCL then listens on a port of the calling process, and
/// the other ranks connect to that port.
std::vector<std::byte> make_id();

/// Creates the calling rank's handle to a new communicator, on GPU `gpu`. Collective: returns when
/// all ranks have called it. If `check` throws before that, the communicator is aborted. NCCL
/// rejects two ranks on one GPU.
std::unique_ptr<GpuCommunicator> join(int gpu, const std::vector<std::byte>& id, int ranks,
                                      int rank, WaitCheck check);

/// Returns the version of the loaded library, such as "NCCL 2.28.9", or "no NCCL".
std::string version();

}  // namespace lockstep::nccl
