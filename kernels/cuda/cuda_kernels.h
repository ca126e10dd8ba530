#pragma once

#include <memory>

#include "kernels/kernels.h"

namespace lockstep {

/// The kernels of an NVIDIA GPU, for the device that is current when one is called. Matrix products
/// are cuBLAS's, all else is in the files beside this one. Queues are cudaStream_t; a call returns
/// when its work is enqueued, and any number of threads may call at the same time.
///
/// f32 products are computed in f32 unless `allow_tf32`, which lets tensor cores round their inputs
/// to 10 bits of fraction first. Errors throw cuda::GpuError (kernels/cuda/check.h). A token or
/// target outside [0, V), which the host can't see, reads and writes nothing: its row of x is the
/// position alone, its loss is NaN.
std::unique_ptr<Kernels> make_cuda_kernels(bool allow_tf32 = false);

}  // namespace lockstep
