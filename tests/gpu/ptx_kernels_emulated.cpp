// A source file has one language in a folder, and for the emulator this one is C++.
#include "tests/gpu/ptx_kernels.cu"
