#pragma once

#include <cblas.h>

#include <cstdint>

namespace lockstep::cpu {

/// A row-major matrix in BLAS terms: its data, its row stride in elements, and whether to read it
/// transposed.
struct Matrix {
  const float* data;
  std::int64_t row_stride;
  bool transposed = false;
};

/// Computes c (m, n) = alpha a (m, k) b (k, n) + beta c. The extents apply after transposition. If
/// beta is 0, c is not read.
inline void gemm(std::int64_t m, std::int64_t n, std::int64_t k, float alpha, Matrix a, Matrix b,
                 float beta, float* c, std::int64_t c_row_stride) {
  const auto flag = [](Matrix x) { return x.transposed ? CblasTrans : CblasNoTrans; };
  const auto whole = [](std::int64_t x) { return static_cast<blasint>(x); };
  cblas_sgemm(CblasRowMajor, flag(a), flag(b), whole(m), whole(n), whole(k), alpha, a.data,
              whole(a.row_stride), b.data, whole(b.row_stride), beta, c, whole(c_row_stride));
}

}  // namespace lockstep::cpu
