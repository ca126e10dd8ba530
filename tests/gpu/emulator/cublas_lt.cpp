// cuBLASLt's matrix product, D = epilogue(alpha op(A) op(B) + beta C), over OpenBLAS in f32: one
// algorithm, which wants a workspace and leaves NaN in it, and addresses aligned as was promised
// when it was asked for. Rounded once, to D's type. TF32 is not emulated.

#include <cublasLt.h>

#include <cblas.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <map>
#include <vector>

#include "kernels/element.h"

struct cublasLtContext {};
struct cublasLtMatmulDescOpaque {
  cublasOperation_t transpose_a = CUBLAS_OP_N;
  cublasOperation_t transpose_b = CUBLAS_OP_N;
  cublasLtEpilogue_t epilogue = CUBLASLT_EPILOGUE_DEFAULT;
  void* bias = nullptr;
  int bias_type = -1;  ///< -1: D's
};
struct cublasLtMatrixLayoutOpaque {
  cudaDataType type = CUDA_R_32F;
  std::int64_t rows = 0;
  std::int64_t columns = 0;
  std::int64_t ld = 0;
  cublasLtOrder_t order = CUBLASLT_ORDER_COL;
  std::int32_t batches = 1;
  std::int64_t batch_stride = 0;
};
struct cublasLtMatmulPreferenceOpaque {
  std::uint64_t workspace = 0;
  std::array<std::uint32_t, 4> alignment{256, 256, 256, 256};
};

namespace emulator {

namespace {

using Layout = cublasLtMatrixLayoutOpaque;
using Product = cublasLtMatmulDescOpaque;

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
/// Of one matrix, from its first element to its last.
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

/// op(x) as f32, column by column without gaps.
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

/// A product with everything that it was called with.
struct Call {
  Product product;
  float alpha, beta;
  const void *a, *b, *c;
  void* d;
  Layout a_layout, b_layout, c_layout, d_layout;

  template <class Pointer>
  static Pointer* matrix(Pointer* data, const Layout& x, std::int64_t batch) {
    using Byte = std::conditional_t<std::is_const_v<Pointer>, const std::byte, std::byte>;
    return static_cast<Byte*>(data) +
           static_cast<std::size_t>(batch * x.batch_stride) * size_of(x.type);
  }

  void run() const {
    must_be_allocated(a, a_layout, "matrix A");
    must_be_allocated(b, b_layout, "matrix B");
    must_be_allocated(d, d_layout, "matrix D");
    if (beta != 0.0F) must_be_allocated(c, c_layout, "matrix C");
    for (std::int64_t i = 0; i < d_layout.batches; ++i) run(i);
  }

  void run(std::int64_t batch) const {
    const std::int64_t m = d_layout.rows;
    const std::int64_t n = d_layout.columns;
    const bool transpose_a = product.transpose_a == CUBLAS_OP_T;
    const std::int64_t k = transpose_a ? a_layout.rows : a_layout.columns;
    const auto left = packed(matrix(a, a_layout, batch), a_layout, transpose_a);
    const auto right =
        packed(matrix(b, b_layout, batch), b_layout, product.transpose_b == CUBLAS_OP_T);
    std::vector<float> sum = beta == 0.0F ? std::vector<float>(static_cast<std::size_t>(m * n))
                                          : packed(matrix(c, c_layout, batch), c_layout, false);
    const auto whole = [](std::int64_t x) {
      return static_cast<blasint>(std::max<std::int64_t>(x, 1));
    };
    if (m > 0 && n > 0 && k > 0)
      cblas_sgemm(CblasColMajor, CblasNoTrans, CblasNoTrans, whole(m), whole(n), whole(k), alpha,
                  left.data(), whole(m), right.data(), whole(k), beta, sum.data(), whole(m));
    else
      for (float& x : sum) x *= beta;

    const int bias_type = product.bias_type < 0 ? d_layout.type : product.bias_type;
    const bool adds_bias = (product.epilogue & CUBLASLT_EPILOGUE_BIAS) != 0;
    const bool is_gelu = (product.epilogue & CUBLASLT_EPILOGUE_GELU) != 0;
    if (adds_bias)
      emulator::must_be_allocated(product.bias, static_cast<std::size_t>(m) * size_of(bias_type),
                                  "a bias");
    void* to = matrix(d, d_layout, batch);
    for (std::int64_t j = 0; j < n; ++j)
      for (std::int64_t i = 0; i < m; ++i) {
        float x = sum[static_cast<std::size_t>(j * m + i)];
        if (adds_bias) x += load(product.bias, i, bias_type);
        store(to, index(d_layout, i, j), d_layout.type, is_gelu ? gelu(x) : x);
      }
    if (product.epilogue == CUBLASLT_EPILOGUE_BGRADA) store_sums(left, m, k, 1, m, bias_type);
    if (product.epilogue == CUBLASLT_EPILOGUE_BGRADB) store_sums(right, n, k, k, 1, bias_type);
  }

  /// The bias's gradient: each row of A, or column of B, summed over k.
  void store_sums(const std::vector<float>& x, std::int64_t count, std::int64_t k,
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
};

bool fits(const Product& product, const Layout& a, const Layout& b, const Layout& c,
          const Layout& d) {
  const bool transpose_a = product.transpose_a == CUBLAS_OP_T;
  const bool transpose_b = product.transpose_b == CUBLAS_OP_T;
  for (const Layout* x : {&a, &b, &c, &d})
    if (x->ld < (x->order == CUBLASLT_ORDER_COL ? x->rows : x->columns) || x->batches != d.batches)
      return false;
  return (transpose_a ? a.columns : a.rows) == d.rows &&
         (transpose_b ? b.rows : b.columns) == d.columns &&
         (transpose_a ? a.rows : a.columns) == (transpose_b ? b.columns : b.rows) &&
         c.rows == d.rows && c.columns == d.columns && c.type == d.type && a.type == b.type;
}

/// Writes an attribute, if it has the size that it should.
template <class Value>
cublasStatus_t set(Value& attribute, const void* value, std::size_t bytes) {
  if (bytes != sizeof attribute) return CUBLAS_STATUS_INVALID_VALUE;
  std::memcpy(&attribute, value, bytes);
  return CUBLAS_STATUS_SUCCESS;
}

/// What the algorithm's opaque words hold: its workspace, and the alignments promised to it.
constexpr std::uint64_t wanted_workspace = 4096;

}  // namespace

}  // namespace emulator

using emulator::set;

std::size_t cublasLtGetVersion() {
  return 130000;
}
const char* cublasLtGetStatusName(cublasStatus_t status) {
  static const std::map<cublasStatus_t, const char*> names{
      {CUBLAS_STATUS_SUCCESS, "CUBLAS_STATUS_SUCCESS"},
      {CUBLAS_STATUS_NOT_INITIALIZED, "CUBLAS_STATUS_NOT_INITIALIZED"},
      {CUBLAS_STATUS_ALLOC_FAILED, "CUBLAS_STATUS_ALLOC_FAILED"},
      {CUBLAS_STATUS_INVALID_VALUE, "CUBLAS_STATUS_INVALID_VALUE"},
      {CUBLAS_STATUS_EXECUTION_FAILED, "CUBLAS_STATUS_EXECUTION_FAILED"},
      {CUBLAS_STATUS_INTERNAL_ERROR, "CUBLAS_STATUS_INTERNAL_ERROR"},
      {CUBLAS_STATUS_NOT_SUPPORTED, "CUBLAS_STATUS_NOT_SUPPORTED"}};
  const auto found = names.find(status);
  return found == names.end() ? "unknown status" : found->second;
}
const char* cublasLtGetStatusString(cublasStatus_t status) {
  return cublasLtGetStatusName(status);
}
const char* cublasGetStatusName(cublasStatus_t status) {
  return cublasLtGetStatusName(status);
}
const char* cublasGetStatusString(cublasStatus_t status) {
  return cublasLtGetStatusName(status);
}

cublasStatus_t cublasLtCreate(cublasLtHandle_t* handle) {
  *handle = new cublasLtContext;
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtDestroy(cublasLtHandle_t handle) {
  delete handle;
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmulDescCreate(cublasLtMatmulDesc_t* product, cublasComputeType_t,
                                        cudaDataType_t scale) {
  if (scale != CUDA_R_32F) return CUBLAS_STATUS_NOT_SUPPORTED;
  *product = new cublasLtMatmulDescOpaque;
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatmulDescDestroy(cublasLtMatmulDesc_t product) {
  delete product;
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatmulDescSetAttribute(cublasLtMatmulDesc_t product,
                                              cublasLtMatmulDescAttributes_t attribute,
                                              const void* value, std::size_t bytes) {
  switch (attribute) {
    case CUBLASLT_MATMUL_DESC_TRANSA:
      return set(product->transpose_a, value, bytes);
    case CUBLASLT_MATMUL_DESC_TRANSB:
      return set(product->transpose_b, value, bytes);
    case CUBLASLT_MATMUL_DESC_EPILOGUE:
      return set(product->epilogue, value, bytes);
    case CUBLASLT_MATMUL_DESC_BIAS_POINTER:
      return set(product->bias, value, bytes);
    case CUBLASLT_MATMUL_DESC_BIAS_DATA_TYPE:
      return set(product->bias_type, value, bytes);
  }
  return CUBLAS_STATUS_NOT_SUPPORTED;
}

cublasStatus_t cublasLtMatrixLayoutCreate(cublasLtMatrixLayout_t* layout, cudaDataType type,
                                          std::uint64_t rows, std::uint64_t columns,
                                          std::int64_t ld) {
  *layout = new cublasLtMatrixLayoutOpaque{.type = type,
                                           .rows = static_cast<std::int64_t>(rows),
                                           .columns = static_cast<std::int64_t>(columns),
                                           .ld = ld};
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatrixLayoutDestroy(cublasLtMatrixLayout_t layout) {
  delete layout;
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatrixLayoutSetAttribute(cublasLtMatrixLayout_t layout,
                                                cublasLtMatrixLayoutAttribute_t attribute,
                                                const void* value, std::size_t bytes) {
  switch (attribute) {
    case CUBLASLT_MATRIX_LAYOUT_ORDER:
      return set(layout->order, value, bytes);
    case CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT:
      return set(layout->batches, value, bytes);
    case CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET:
      return set(layout->batch_stride, value, bytes);
  }
  return CUBLAS_STATUS_NOT_SUPPORTED;
}

cublasStatus_t cublasLtMatmulPreferenceCreate(cublasLtMatmulPreference_t* preference) {
  *preference = new cublasLtMatmulPreferenceOpaque;
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatmulPreferenceDestroy(cublasLtMatmulPreference_t preference) {
  delete preference;
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatmulPreferenceSetAttribute(cublasLtMatmulPreference_t preference,
                                                    cublasLtMatmulPreferenceAttributes_t attribute,
                                                    const void* value, std::size_t bytes) {
  std::uint32_t unused = 0;
  switch (attribute) {
    case CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES:
      return set(preference->workspace, value, bytes);
    case CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK:
      return set(unused, value, bytes);
    default:
      return set(preference->alignment.at(attribute - CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES),
                 value, bytes);
  }
}

cublasStatus_t cublasLtMatmulAlgoGetHeuristic(cublasLtHandle_t, cublasLtMatmulDesc_t product,
                                              cublasLtMatrixLayout_t a, cublasLtMatrixLayout_t b,
                                              cublasLtMatrixLayout_t c, cublasLtMatrixLayout_t d,
                                              cublasLtMatmulPreference_t preference, int wanted,
                                              cublasLtMatmulHeuristicResult_t results[],
                                              int* found) {
  *found = 0;
  if (wanted < 1 || !emulator::fits(*product, *a, *b, *c, *d)) return CUBLAS_STATUS_INVALID_VALUE;
  *found = 1;
  results[0] = {};
  results[0].state = CUBLAS_STATUS_SUCCESS;
  results[0].wavesCount = 1.0F;
  results[0].workspaceSize = std::min(preference->workspace, emulator::wanted_workspace);
  results[0].algo.data[0] = results[0].workspaceSize;
  std::copy(preference->alignment.begin(), preference->alignment.end(), results[0].algo.data + 1);
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmul(cublasLtHandle_t, cublasLtMatmulDesc_t product, const void* alpha,
                              const void* a, cublasLtMatrixLayout_t a_layout, const void* b,
                              cublasLtMatrixLayout_t b_layout, const void* beta, const void* c,
                              cublasLtMatrixLayout_t c_layout, void* d,
                              cublasLtMatrixLayout_t d_layout, const cublasLtMatmulAlgo_t* algo,
                              void* workspace, std::size_t workspace_bytes, cudaStream_t stream) {
  if (!emulator::fits(*product, *a_layout, *b_layout, *c_layout, *d_layout))
    return CUBLAS_STATUS_INVALID_VALUE;
  std::uint64_t scratch = 0;
  if (algo != nullptr) {
    scratch = algo->data[0];
    const std::array<const void*, 4> matrices{a, b, c, d};
    const std::array<const emulator::Layout*, 4> layouts{a_layout, b_layout, c_layout, d_layout};
    for (std::size_t i = 0; i < 4; ++i) {
      const auto stride =
          static_cast<std::size_t>(layouts[i]->ld) * emulator::size_of(layouts[i]->type);
      const bool many =
          layouts[i]->order == CUBLASLT_ORDER_COL ? layouts[i]->columns > 1 : layouts[i]->rows > 1;
      if (reinterpret_cast<std::uintptr_t>(matrices[i]) % algo->data[i + 1] != 0 ||
          (many && stride % algo->data[i + 1] != 0))
        return CUBLAS_STATUS_INVALID_VALUE;
    }
  }
  if (scratch > workspace_bytes || (scratch > 0 && workspace == nullptr))
    return CUBLAS_STATUS_INVALID_VALUE;
  const emulator::Call call{*product,
                            *static_cast<const float*>(alpha),
                            *static_cast<const float*>(beta),
                            a,
                            b,
                            c,
                            d,
                            *a_layout,
                            *b_layout,
                            *c_layout,
                            *d_layout};
  const auto run = [call, workspace, scratch] {
    emulator::must_be_allocated(workspace, scratch, "a workspace");
    if (scratch > 0) std::memset(workspace, 0xFF, scratch);
    call.run();
  };
  return emulator::enqueue(stream, run, "matrix product") == cudaSuccess
             ? CUBLAS_STATUS_SUCCESS
             : CUBLAS_STATUS_EXECUTION_FAILED;
}
