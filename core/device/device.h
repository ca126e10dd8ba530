#pragma once

#include "core/device/memory.h"
#include "core/device/stream.h"
#include "core/device/tensor.h"

namespace lockstep {

/// What a model needs from its device: memory for its tensors and a stream to compute on. Both
/// outlive everything built on them.
struct Device {
  Memory& memory;
  Stream& compute;
};

/// Records current memory use in the trace, where buffers are allocated or released within a step.
inline void record_memory(const Device& device) {
  device.compute.trace().memory(device.memory.current(), device.compute.now());
}

}  // namespace lockstep
