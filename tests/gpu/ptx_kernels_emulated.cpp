// CMake assigns one language to a source file per folder; this file compiles the kernels as C++ for
// the emulator.
#include "tests/gpu/ptx_kernels.cu"
