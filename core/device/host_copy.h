#pragma once

#include <span>
#include <vector>

#include "core/device/device.h"

namespace lockstep {

// Copies between a device and the host, for setup, checkpoints and comparisons. They block the
// host, take no modelled time, and are not traced. They do nothing on a view without storage.

/// Returns a contiguous view's elements as f32, which represents 16-bit values exactly. Returns an
/// empty vector on the meta device.
std::vector<float> to_host(Device device, View from);
/// Writes `values` to a contiguous view with the same number of elements. 16-bit elements get the
/// values rounded to nearest even. Throws std::invalid_argument if the numbers of elements differ.
void from_host(Device device, std::span<const float> values, View into);

}  // namespace lockstep
