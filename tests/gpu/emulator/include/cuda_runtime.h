#pragma once

/// Replaces CUDA's header of the same name when kernels are compiled for the emulator.

#include "emulator/device.h"
#include "emulator/runtime.h"
