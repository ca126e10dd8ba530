// Emulates cuBLASLt's calls. There are three algorithms, which add in different orders. They
// require a workspace, which they fill with NaN, and the address alignments that the caller
// promised when asking for an algorithm. As in cuBLASLt, the first proposal may depend on the
// number of proposals requested, and there may be none that adds a bias: here, if the row-major
// result has one column. TF32 is not emulated.

#include <cublasLt.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <cstring>
#include <map>
#include <set>
#include <tuple>

#include "tests/gpu/emulator/machine.h"
#include "tests/gpu/emulator/matrix_product.h"

struct cublasLtContext {};
struct cublasLtMatmulPreferenceOpaque {
  std::uint64_t workspace = 0;
  std::array<std::uint32_t, 4> alignment{256, 256, 256, 256};
};

namespace emulator {

namespace {

/// Writes an attribute if its size is correct.
template <class Value>
cublasStatus_t set(Value& attribute, const void* value, std::size_t bytes) {
  if (bytes != sizeof attribute) return CUBLAS_STATUS_INVALID_VALUE;
  std::memcpy(&attribute, value, bytes);
  return CUBLAS_STATUS_SUCCESS;
}

/// The contents of the algorithm's opaque words: its workspace size, the alignments that the caller
/// promised, and the number of partial sums that it adds.
constexpr std::uint64_t wanted_workspace = 4096;
constexpr int algorithms = 3;

/// cuBLASLt loads a kernel at its first launch on a GPU, and CUDA may make this wait for all
/// kernels that run there. (The emulator does so only with $LOCKSTEP_EMULATED_LOADING. Here, each
/// combination of transpositions, type, bias and accumulation has its own kernel.)
void load_kernel_of(const MatrixProduct& call) {
  static const bool waits = std::getenv("LOCKSTEP_EMULATED_LOADING") != nullptr;
  static std::set<std::tuple<int, int, int, int, bool, bool>> loaded;
  if (!waits) return;
  Machine& machine = Machine::get();
  Machine::Lock lock = machine.lock();
  const int device = current_device();
  const bool is_new = loaded
                          .emplace(device, call.product.transpose_a, call.product.transpose_b,
                                   call.d_layout.type, call.product.bias != nullptr, call.beta != 0)
                          .second;
  if (is_new) machine.drive(lock, [&] { return !machine.communicates(device); });
}

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
    case CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_POINTER:
      return set(product->aux, value, bytes);
    case CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_LD:
      return set(product->aux_ld, value, bytes);
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
  if (wanted < 1 || !emulator::MatrixProduct{*product, 1.0F, 0.0F, nullptr, nullptr, nullptr,
                                             nullptr, *a, *b, *c, *d}
                         .fits())
    return CUBLAS_STATUS_INVALID_VALUE;
  const bool has_bias = product->epilogue == CUBLASLT_EPILOGUE_BIAS;
  if (has_bias && d->rows == 1) return CUBLAS_STATUS_NOT_SUPPORTED;
  *found = std::min(wanted, emulator::algorithms);
  for (int i = 0; i < *found; ++i) {
    cublasLtMatmulHeuristicResult_t& result = results[i] = {};
    result.state = CUBLAS_STATUS_SUCCESS;
    result.wavesCount = 1.0F;
    result.workspaceSize = std::min(preference->workspace, emulator::wanted_workspace);
    result.algo.data[0] = result.workspaceSize;
    std::copy(preference->alignment.begin(), preference->alignment.end(), result.algo.data + 1);
    const int number = wanted < emulator::algorithms ? emulator::algorithms - i : i + 1;
    result.algo.data[5] = static_cast<std::uint64_t>(number);
  }
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmul(cublasLtHandle_t, cublasLtMatmulDesc_t product, const void* alpha,
                              const void* a, cublasLtMatrixLayout_t a_layout, const void* b,
                              cublasLtMatrixLayout_t b_layout, const void* beta, const void* c,
                              cublasLtMatrixLayout_t c_layout, void* d,
                              cublasLtMatrixLayout_t d_layout, const cublasLtMatmulAlgo_t* algo,
                              void* workspace, std::size_t workspace_bytes, cudaStream_t stream) {
  const emulator::MatrixProduct call{*product,
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
  if (!call.fits()) return CUBLAS_STATUS_INVALID_VALUE;
  std::uint64_t scratch = 0, parts = 1;
  if (algo != nullptr) {
    scratch = algo->data[0];
    parts = algo->data[5];
    const std::array<const void*, 4> matrices{a, b, c, d};
    const std::array<cublasLtMatrixLayout_t, 4> layouts{a_layout, b_layout, c_layout, d_layout};
    for (std::size_t i = 0; i < 4; ++i) {
      const std::size_t bytes = layouts[i]->type == CUDA_R_32F ? 4 : 2;
      const auto stride = static_cast<std::size_t>(layouts[i]->ld) * bytes;
      const bool many =
          layouts[i]->order == CUBLASLT_ORDER_COL ? layouts[i]->columns > 1 : layouts[i]->rows > 1;
      if (reinterpret_cast<std::uintptr_t>(matrices[i]) % algo->data[i + 1] != 0 ||
          (many && stride % algo->data[i + 1] != 0))
        return CUBLAS_STATUS_INVALID_VALUE;
    }
  }
  if (scratch > workspace_bytes || (scratch > 0 && workspace == nullptr))
    return CUBLAS_STATUS_INVALID_VALUE;
  emulator::load_kernel_of(call);
  const auto run = [call, workspace, scratch, parts] {
    emulator::must_be_allocated(workspace, scratch, "a workspace");
    if (scratch > 0) std::memset(workspace, 0xFF, scratch);
    call.run(static_cast<int>(parts));
  };
  return emulator::enqueue(stream, run, emulator::Counted::product) == cudaSuccess
             ? CUBLAS_STATUS_SUCCESS
             : CUBLAS_STATUS_EXECUTION_FAILED;
}
