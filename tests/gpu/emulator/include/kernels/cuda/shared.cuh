#pragma once

/// Replaces kernels/cuda/shared.cuh, which declares an array in a way that no C++ compiler accepts.

#include "emulator/device.h"

namespace lockstep::cuda {

template <class T>
T* dynamic_shared() {
  return static_cast<T*>(emulator::dynamic_shared_memory());
}

}  // namespace lockstep::cuda
