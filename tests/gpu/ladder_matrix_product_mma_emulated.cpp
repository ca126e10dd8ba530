// CMake assigns one language to a source file per folder; this file compiles the ladder as C++ for
// the emulator.
#include "kernels/cuda/ladder/matrix_product_mma.cu"
