#include "tests/gpu/variants/epilogues.h"

#include <fmt/format.h>

#include "kernels/cuda/check.h"

namespace lockstep::variants {
namespace {

constexpr std::size_t most_workspace = 32 << 20;  // as for the products in use

void want(cublasStatus_t status, const char* call) {
  if (status != CUBLAS_STATUS_SUCCESS)
    throw cuda::GpuError(fmt::format("{}: {}", call, cublasLtGetStatusString(status)));
}

template <class Value>
void set(cublasLtMatmulDesc_t product, cublasLtMatmulDescAttributes_t attribute, Value value) {
  want(cublasLtMatmulDescSetAttribute(product, attribute, &value, sizeof value), "set attribute");
}

cudaDataType_t type_of(DType dtype) {
  return dtype == DType::bf16 ? CUDA_R_16BF : CUDA_R_32F;
}

}  // namespace

struct FusedProduct::Call {
  cublasLtHandle_t handle = nullptr;
  cublasLtMatmulDesc_t product = nullptr;
  cublasLtMatrixLayout_t first = nullptr, second = nullptr, to = nullptr;
  View a, b, d;
  float beta = 0.0F;
  cublasLtMatmulHeuristicResult_t chosen = {};
  std::unique_ptr<cuda::Scratch<std::byte>> workspace;

  ~Call() {
    for (auto* const layout : {first, second, to})
      static_cast<void>(cublasLtMatrixLayoutDestroy(layout));
    static_cast<void>(cublasLtMatmulDescDestroy(product));
    static_cast<void>(cublasLtDestroy(handle));
  }
};

FusedProduct::FusedProduct(cuda::Factor a, cuda::Factor b, View d, bool accumulates,
                           const Epilogue& epilogue)
    : call_(std::make_unique<Call>()) {
  Call& call = *call_;
  call.a = a.matrix, call.b = b.matrix, call.d = d;
  call.beta = accumulates ? 1.0F : 0.0F;
  want(cublasLtCreate(&call.handle), "cublasLtCreate");
  want(cublasLtMatmulDescCreate(&call.product, CUBLAS_COMPUTE_32F, CUDA_R_32F), "describe");
  const auto whether = [](bool transposed) { return transposed ? CUBLAS_OP_T : CUBLAS_OP_N; };
  set(call.product, CUBLASLT_MATMUL_DESC_TRANSA, whether(b.transposed));
  set(call.product, CUBLASLT_MATMUL_DESC_TRANSB, whether(a.transposed));
  set(call.product, CUBLASLT_MATMUL_DESC_EPILOGUE, epilogue.kind);
  if (epilogue.vector) {
    set(call.product, CUBLASLT_MATMUL_DESC_BIAS_POINTER, epilogue.vector.data);
    set(call.product, CUBLASLT_MATMUL_DESC_BIAS_DATA_TYPE, type_of(epilogue.vector.dtype));
  }
  if (epilogue.aux) {
    set(call.product, CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_POINTER, epilogue.aux.data);
    set(call.product, CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_LD, epilogue.aux.row_stride);
  }
  const auto describe = [](cublasLtMatrixLayout_t& layout, const View& view) {
    want(cublasLtMatrixLayoutCreate(&layout, type_of(view.dtype),
                                    static_cast<std::uint64_t>(view.shape.last()),
                                    static_cast<std::uint64_t>(view.shape.rows()), view.row_stride),
         "describe");
  };
  describe(call.first, b.matrix), describe(call.second, a.matrix), describe(call.to, d);

  cublasLtMatmulPreference_t preference = nullptr;
  want(cublasLtMatmulPreferenceCreate(&preference), "preference");
  const auto prefer = [&](cublasLtMatmulPreferenceAttributes_t attribute, auto value) {
    want(cublasLtMatmulPreferenceSetAttribute(preference, attribute, &value, sizeof value),
         "preference");
  };
  prefer(CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, std::uint64_t{most_workspace});
  prefer(CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK,
         std::uint32_t{CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE});
  for (const auto attribute :
       {CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES,
        CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES})
    prefer(attribute, std::uint32_t{16});
  int found = 0;
  const cublasStatus_t status =
      cublasLtMatmulAlgoGetHeuristic(call.handle, call.product, call.first, call.second, call.to,
                                     call.to, preference, 1, &call.chosen, &found);
  static_cast<void>(cublasLtMatmulPreferenceDestroy(preference));
  want(status, "cublasLtMatmulAlgoGetHeuristic");
  if (found == 0) throw cuda::GpuError("cuBLASLt has no algorithm with this epilogue");
  call.workspace = std::make_unique<cuda::Scratch<std::byte>>(Queue{}, call.chosen.workspaceSize);
}

FusedProduct::~FusedProduct() = default;

void FusedProduct::run(Queue queue) const {
  const Call& call = *call_;
  const float alpha = 1.0F;
  want(cublasLtMatmul(call.handle, call.product, &alpha, call.b.data, call.first, call.a.data,
                      call.second, &call.beta, call.d.data, call.to, call.d.data, call.to,
                      &call.chosen.algo, call.workspace->data(), call.chosen.workspaceSize,
                      cuda::stream_of(queue)),
       "cublasLtMatmul");
}

}  // namespace lockstep::variants
