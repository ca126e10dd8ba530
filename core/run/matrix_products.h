#pragma once

#include "core/device/stream.h"
#include "core/run/options/options.h"

namespace lockstep {

/// Runs each matrix product of a GPT once, in the sizes of one microbatch and on whatever is in the
/// memory. cuBLASLt loads its kernels at their first launch, and loading may wait for the kernels
/// that run. One of them may be a receive, which waits for data that another rank can compute only
/// after this rank's products. So they are loaded before the first receive is posted. (Lockstep's
/// own kernels are loaded when CUDA starts: core/device/gpu_library.cpp.)
void load_matrix_products(Stream& compute, const Options& options);

}  // namespace lockstep
