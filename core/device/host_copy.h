#pragma once

#include <span>
#include <vector>

#include "core/device/device.h"

namespace lockstep {

// Between a device and the host, for setting up, checkpoints and comparisons: the host waits, and
// the modelled clock and the trace know nothing of it. Nothing where there is no storage.

/// A contiguous view's elements in f32; widening is exact. Empty on the meta device.
std::vector<float> to_host(Device device, View from);
/// As many numbers as the contiguous view has elements; rounded to nearest even where it is narrow.
void from_host(Device device, std::span<const float> values, View into);

}  // namespace lockstep
