#pragma once

#include "cub/cub.cuh"  // the emulator's CUB is one file
