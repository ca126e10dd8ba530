#pragma once

#include <memory>

#include "kernels/kernels.h"

namespace lockstep::testing {

/// A GPU's kernels for views of host memory: every call copies its arguments to the GPU, with what
/// lies between their rows, runs, waits, and copies all of it back. What lies side by side or
/// overlaps in the host's memory does so on the GPU, at the same distance from aligned addresses.
/// Around it is a margin: throws std::logic_error if a kernel wrote there.
std::unique_ptr<Kernels> on_device(std::unique_ptr<Kernels> kernels);

}  // namespace lockstep::testing
