#pragma once

#include "kernels/kernels.h"

namespace lockstep::testing {

/// Returns a GPU's kernels, wrapped so that they take views of host memory. Every call copies its
/// arguments to the GPU, including the gaps between rows, runs the kernel, waits, and copies
/// everything back. Arguments that are adjacent or overlap in host memory do so on the GPU too, at
/// the same distance from aligned addresses. Throws std::logic_error if a kernel wrote to the
/// margin around its arguments.
Kernels on_device(const Kernels& kernels);

}  // namespace lockstep::testing
