#pragma once

#include <span>
#include <vector>

#include "core/device/device.h"

namespace lockstep {

// Copies between a device and the host, for setup, checkpoints and comparisons. The host waits, and
// neither the modelled clock nor the trace records them. No-ops without storage.

/// A contiguous view's elements in f32; widening is exact. Empty on the meta device.
std::vector<float> to_host(Device device, View from);
/// Writes as many values as the contiguous view has elements, rounded to nearest even for 16-bit
/// types.
void from_host(Device device, std::span<const float> values, View into);

}  // namespace lockstep
