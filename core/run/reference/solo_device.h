#pragma once

#include <memory>

#include "core/device/device.h"

namespace lockstep {

/// A device for work outside the ranks: the first GPU, or the CPU. Uses the wall clock and records
/// no trace.
struct SoloDevice {
  explicit SoloDevice(bool on_gpu = false, bool allow_tf32 = false)
      : gpu(on_gpu ? gpu_library().open(0, allow_tf32) : nullptr),
        compute(gpu ? Stream{clock, silent, 0, *gpu} : Stream{clock, silent, 0, DeviceKind::cpu}),
        memory(gpu ? Memory{*gpu, compute.queue()} : Memory{}) {}
  SoloDevice(const SoloDevice&) = delete;
  SoloDevice& operator=(const SoloDevice&) = delete;

  operator Device() { return {memory, compute}; }

  Clock clock = Clock::wall();
  Recorder silent{false};
  std::unique_ptr<Gpu> gpu;
  Stream compute;
  Memory memory;
};

}  // namespace lockstep
