#pragma once

/// Stands in for CUDA's header of the same name where kernels are compiled for the emulator.

#include "emulator/device.h"
#include "emulator/runtime.h"
