#pragma once

#include "kernels/kernels.h"

namespace lockstep {

/// Creates kernels for the calling thread's current GPU, which must also be current when they are
/// called. Matrix products use cuBLASLt; all other kernels are in this folder. Queues are
/// cudaStream_t; a call returns once its work is enqueued, and any number of threads may call
/// concurrently.
///
/// f32 products are computed in f32 unless `allow_tf32` is true, which lets tensor cores round the
/// products' inputs to 10 fraction bits. Errors throw cuda::GpuError (kernels/cuda/check.h). A
/// token or target outside [0, V) does not throw, because the host cannot check it. Instead, the
/// kernel accesses no memory for that index: for such a token the row of x is just the position
/// embedding, and for such a target the loss is NaN.
Kernels make_cuda_kernels(bool allow_tf32 = false);

}  // namespace lockstep
