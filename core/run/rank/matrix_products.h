#pragma once

#include "core/device/stream.h"
#include "core/run/options/options.h"

namespace lockstep {

/// Runs each matrix product of a GPT once, with the sizes of one microbatch, on uninitialised
/// memory, and those of experts with several numbers of rows. cuBLASLt loads its kernels at their
/// first launch, and loading may wait for running kernels. One of these may be a receive, which
/// waits for data that another rank can compute only after this rank's products. The kernels are
/// therefore loaded before the first receive is posted. (Lockstep's own kernels are loaded when
/// CUDA starts: core/device/gpu_library.cpp.)
void load_matrix_products(Stream& compute, const Options& options);

}  // namespace lockstep
