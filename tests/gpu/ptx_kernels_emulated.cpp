// CMake assigns one language per source file and folder; for the emulator it is C++.
#include "tests/gpu/ptx_kernels.cu"
