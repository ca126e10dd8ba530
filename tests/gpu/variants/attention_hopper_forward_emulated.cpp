// CMake assigns one language to a source file per folder; this file compiles the kernel as C++ for
// the emulator.
#include "tests/gpu/variants/attention_hopper_forward.cu"
