#include "tests/gpu/emulator/matrix_product.h"

#include <algorithm>
#include <cmath>

#include "kernels/cpu/gemm.h"
#include "kernels/element.h"

namespace emulator {

namespace {

using Layout = cublasLtMatrixLayoutOpaque;

std::size_t size_of(int type) {
  return type == CUDA_R_32F ? 4 : 2;
}
float load(const void* data, std::int64_t i, int type) {
  if (type == CUDA_R_32F) return static_cast<const float*>(data)[i];
  const std::uint16_t bits = static_cast<const std::uint16_t*>(data)[i];
  return type == CUDA_R_16BF ? lockstep::element::from_bf16(bits)
                             : lockstep::element::from_f16(bits);
}
void store(void* data, std::int64_t i, int type, float value) {
  if (type == CUDA_R_32F)
    static_cast<float*>(data)[i] = value;
  else
    static_cast<std::uint16_t*>(data)[i] =
        type == CUDA_R_16BF ? lockstep::element::to_bf16(value) : lockstep::element::to_f16(value);
}

std::int64_t index(const Layout& x, std::int64_t row, std::int64_t column) {
  return x.order == CUBLASLT_ORDER_COL ? column * x.ld + row : row * x.ld + column;
}
/// Returns the number of bytes that one matrix of `x` spans: from the start of its first element to
/// the end of its last, including the gaps between rows or columns.
std::size_t span(const Layout& x) {
  if (x.rows == 0 || x.columns == 0) return 0;
  return static_cast<std::size_t>(index(x, x.rows - 1, x.columns - 1) + 1) * size_of(x.type);
}
void must_be_allocated(const void* data, const Layout& x, const char* who) {
  for (std::int64_t i = 0; i < x.batches; ++i) {
    const auto offset = static_cast<std::size_t>(i * x.batch_stride) * size_of(x.type);
    emulator::must_be_allocated(static_cast<const std::byte*>(data) + offset, span(x), who);
  }
}

/// Returns op(x) in f32, column-major without gaps.
std::vector<float> packed(const void* data, const Layout& x, bool transpose) {
  std::vector<float> dense(static_cast<std::size_t>(x.rows * x.columns));
  float* to = dense.data();
  const std::int64_t rows = transpose ? x.columns : x.rows;
  const std::int64_t columns = transpose ? x.rows : x.columns;
  for (std::int64_t j = 0; j < columns; ++j)
    for (std::int64_t i = 0; i < rows; ++i)
      *to++ = load(data, transpose ? index(x, j, i) : index(x, i, j), x.type);
  return dense;
}

float gelu(float x) {
  const float inner = 0.7978845608F * (x + 0.044715F * x * x * x);
  return 0.5F * x * (1.0F + std::tanh(inner));
}

float gelu_derivative(float x) {
  const float t = std::tanh(0.7978845608F * (x + 0.044715F * x * x * x));
  return 0.5F * (1.0F + t) +
         0.5F * x * (1.0F - t * t) * 0.7978845608F * (1.0F + 3.0F * 0.044715F * x * x);
}

template <class Pointer>
Pointer* matrix(Pointer* data, const Layout& x, std::int64_t batch) {
  using Byte = std::conditional_t<std::is_const_v<Pointer>, const std::byte, std::byte>;
  return static_cast<Byte*>(data) +
         static_cast<std::size_t>(batch * x.batch_stride) * size_of(x.type);
}

}  // namespace

void MatrixProduct::run(int parts) const {
  must_be_allocated(a, a_layout, "matrix A");
  must_be_allocated(b, b_layout, "matrix B");
  must_be_allocated(d, d_layout, "matrix D");
  if (beta != 0.0F) must_be_allocated(c, c_layout, "matrix C");
  for (std::int64_t i = 0; i < d_layout.batches; ++i) run(i, parts);
}

void MatrixProduct::run(std::int64_t batch, int parts) const {
  const std::int64_t m = d_layout.rows;
  const std::int64_t n = d_layout.columns;
  const bool transpose_a = product.transpose_a == CUBLAS_OP_T;
  const std::int64_t k = transpose_a ? a_layout.rows : a_layout.columns;
  const auto left = packed(matrix(a, a_layout, batch), a_layout, transpose_a);
  const auto right =
      packed(matrix(b, b_layout, batch), b_layout, product.transpose_b == CUBLAS_OP_T);
  std::vector<float> sum = beta == 0.0F ? std::vector<float>(static_cast<std::size_t>(m * n))
                                        : packed(matrix(c, c_layout, batch), c_layout, false);
  // Read by rows, a column-major matrix is transposed: dᵀ = bᵀ aᵀ.
  if (m > 0 && n > 0 && k > 0)
    for (std::int64_t first = 0, part = 1; first < k; ++part) {
      const std::int64_t end = part < parts ? std::max(first + 1, k * part / parts) : k;
      std::vector<float> term(sum.size());
      float* const to = first == 0 ? sum.data() : term.data();
      lockstep::cpu::gemm({n, m, end - first}, alpha, {right.data() + first, k},
                          {left.data() + first * m, m}, first == 0 ? beta : 0.0F, to, m);
      if (first > 0)
        for (std::size_t i = 0; i < sum.size(); ++i) sum[i] += term[i];
      first = end;
    }
  else
    for (float& x : sum) x *= beta;

  const int bias_type = product.bias_type < 0 ? d_layout.type : product.bias_type;
  const bool adds_bias = (product.epilogue & CUBLASLT_EPILOGUE_BIAS) != 0;
  const bool is_gelu = (product.epilogue & CUBLASLT_EPILOGUE_GELU) != 0;
  const bool is_gelu_backward = (product.epilogue & 64) != 0;
  const bool has_aux = (product.epilogue & 128) != 0;
  const bool sums_d = product.epilogue == CUBLASLT_EPILOGUE_DGELU_BGRAD;
  if (adds_bias || sums_d)
    emulator::must_be_allocated(product.bias, static_cast<std::size_t>(m) * size_of(bias_type),
                                "a bias");
  const Layout aux{.type = d_layout.type, .rows = m, .columns = n, .ld = product.aux_ld};
  if (has_aux) must_be_allocated(product.aux, aux, "GELU's argument");
  void* to = matrix(d, d_layout, batch);
  std::vector<float> sums(static_cast<std::size_t>(m));
  for (std::int64_t j = 0; j < n; ++j)
    for (std::int64_t i = 0; i < m; ++i) {
      float x = sum[static_cast<std::size_t>(j * m + i)];
      if (adds_bias) x += load(product.bias, i, bias_type);
      if (has_aux && is_gelu) store(product.aux, index(aux, i, j), aux.type, x);
      if (is_gelu) x = gelu(x);
      if (is_gelu_backward) x *= gelu_derivative(load(product.aux, index(aux, i, j), aux.type));
      store(to, index(d_layout, i, j), d_layout.type, x);
      sums[static_cast<std::size_t>(i)] += x;
    }
  for (std::int64_t i = 0; sums_d && i < m; ++i)
    store(product.bias, i, bias_type, sums[static_cast<std::size_t>(i)]);
  if (product.epilogue == CUBLASLT_EPILOGUE_BGRADA) store_sums(left, m, k, 1, m, bias_type);
  if (product.epilogue == CUBLASLT_EPILOGUE_BGRADB) store_sums(right, n, k, k, 1, bias_type);
}

/// Stores the bias gradient: each row of A, or column of B, summed over k.
void MatrixProduct::store_sums(const std::vector<float>& x, std::int64_t count, std::int64_t k,
                               std::int64_t stride, std::int64_t k_stride, int type) const {
  emulator::must_be_allocated(product.bias, static_cast<std::size_t>(count) * size_of(type),
                              "a bias's gradient");
  for (std::int64_t i = 0; i < count; ++i) {
    float sum = 0.0F;
    for (std::int64_t l = 0; l < k; ++l)
      sum += x[static_cast<std::size_t>(i * stride + l * k_stride)];
    store(product.bias, i, type, sum);
  }
}

bool MatrixProduct::fits() const {
  const bool transpose_a = product.transpose_a == CUBLAS_OP_T;
  const bool transpose_b = product.transpose_b == CUBLAS_OP_T;
  for (const Layout* x : {&a_layout, &b_layout, &c_layout, &d_layout})
    if (x->ld < (x->order == CUBLASLT_ORDER_COL ? x->rows : x->columns) ||
        x->batches != d_layout.batches)
      return false;
  const Layout& a_ = a_layout;
  const Layout& b_ = b_layout;
  return (transpose_a ? a_.columns : a_.rows) == d_layout.rows &&
         (transpose_b ? b_.rows : b_.columns) == d_layout.columns &&
         (transpose_a ? a_.rows : a_.columns) == (transpose_b ? b_.columns : b_.rows) &&
         c_layout.rows == d_layout.rows && c_layout.columns == d_layout.columns &&
         c_layout.type == d_layout.type && a_.type == b_.type;
}

}  // namespace emulator
