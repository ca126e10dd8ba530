/// Matrix products with OpenBLAS. OpenBLAS packs its operands, so results are bitwise identical for
/// any row strides.

#include <cblas.h>

#include <stdexcept>

#include "kernels/cpu/gemm.h"

namespace lockstep::cpu {

void gemm(Extents extents, float alpha, Matrix a, Matrix b, float beta, float* c,
          std::int64_t c_row_stride) {
  // Sets one thread for the whole process, because the ranks provide the parallelism.
  [[maybe_unused]] static const bool one_thread = (openblas_set_num_threads(1), true);
  const auto flag = [](Matrix x) { return x.transposed ? CblasTrans : CblasNoTrans; };
  const auto whole = [](std::int64_t x) { return static_cast<blasint>(x); };
  const auto& [m, n, k] = extents;
  cblas_sgemm(CblasRowMajor, flag(a), flag(b), whole(m), whole(n), whole(k), alpha, a.data,
              whole(a.row_stride), b.data, whole(b.row_stride), beta, c, whole(c_row_stride));
}

bool multiplies_bf16() {
  return false;
}

void gemm_bf16(Extents, Bf16Matrix, Bf16Matrix, bool, View) {
  throw std::logic_error("OpenBLAS is not used for products of bf16 matrices");
}

std::string gemm_library() {
  const std::string config = openblas_get_config();  // "OpenBLAS 0.3.21 DYNAMIC_ARCH ..."
  const std::size_t end = config.find(' ', config.find(' ') + 1);
  return config.substr(0, end) + ", code for " + openblas_get_corename();
}

}  // namespace lockstep::cpu
