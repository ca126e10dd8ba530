#pragma once

#include "core/device/memory.h"
#include "core/device/stream.h"
#include "core/device/tensor.h"

namespace lockstep {

/// A model's device: the memory that holds the model's tensors, and the stream that the model
/// computes on. Both must outlive everything built on them.
struct Device {
  Memory& memory;
  Stream& compute;
};

/// Records the current memory use in the trace. Called when buffers are allocated or released
/// within a step.
inline void record_memory(const Device& device) {
  Recorder& trace = device.compute.trace();
  if (!trace.on()) return;
  const int state = device.memory.parts().state(trace);
  trace.memory(device.memory.current(), device.compute.now(), state);
}

}  // namespace lockstep
