#pragma once

#include "core/device/memory.h"
#include "core/device/stream.h"
#include "core/device/tensor.h"

namespace lockstep {

/// What a model needs of the place where it lives: memory to hold it and a stream to compute on.
/// Both outlive whatever is built on them.
struct Device {
  Memory& memory;
  Stream& compute;
};

/// Enters into the trace what is allocated now: where buffers come and go within a step.
inline void record_memory(const Device& device) {
  device.compute.trace().memory(device.memory.current(), device.compute.now());
}

}  // namespace lockstep
