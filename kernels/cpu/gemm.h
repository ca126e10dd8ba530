#pragma once

/// Matrix products on the CPU, computed by a library: oneDNN on x86-64 (gemm_onednn.cpp), which
/// selects code for the processor's features, or OpenBLAS (gemm_openblas.cpp).
///
/// A product runs on the calling thread. Its result depends on the extents, the factors and the
/// elements, but is bitwise identical whatever the alignment, the row strides and the number of
/// other threads.

#include <cstdint>
#include <string>

#include "kernels/view.h"

namespace lockstep::cpu {

/// A row-major matrix of type T in BLAS terms: its data, its row stride in elements, and whether to
/// read it transposed. T is float, or std::uint16_t for bf16.
template <class T>
struct MatrixOf {
  const T* data;
  std::int64_t row_stride;
  bool transposed = false;
};
using Matrix = MatrixOf<float>;
using Bf16Matrix = MatrixOf<std::uint16_t>;

/// The extents of a product after any transposition: (m, k) times (k, n).
struct Extents {
  std::int64_t m, n, k;
};

/// Computes c (m, n) = alpha a (m, k) b (k, n) + beta c. If beta is 0, c is not read.
void gemm(Extents extents, float alpha, Matrix a, Matrix b, float beta, float* c,
          std::int64_t c_row_stride);

/// Returns whether this processor multiplies bf16 matrices without widening them first (AVX-512
/// BF16, AMX).
bool multiplies_bf16();

/// Computes c (m, n) = a (m, k) b (k, n), or adds the product to c if `accumulate`. Sums in f32 and
/// rounds once, to the type of c (f32 or bf16). Requires multiplies_bf16().
void gemm_bf16(Extents extents, Bf16Matrix a, Bf16Matrix b, bool accumulate, View c);

/// Returns the library, its version and the instruction set that it uses on this processor, such as
/// "oneDNN 2.6.3, AVX-512".
std::string gemm_library();

}  // namespace lockstep::cpu
