#include "kernels/cuda/product_call.h"

#include "kernels/cuda/aligned_rows.h"

namespace lockstep::cuda {
namespace {

constexpr std::size_t most_workspace = 32 << 20;  // NVIDIA's recommendation for Hopper
/// The number of proposals requested from cuBLASLt. It is always the same, because cuBLASLt's first
/// proposal may depend on this number.
constexpr int most_proposals = 32;

cudaDataType_t type_of(DType dtype) {
  switch (dtype) {
    case DType::bf16:
      return CUDA_R_16BF;
    case DType::f16:
      return CUDA_R_16F;
    default:
      return CUDA_R_32F;
  }
}

cublasOperation_t whether(bool transposed) {
  return transposed ? CUBLAS_OP_T : CUBLAS_OP_N;
}

void describe(CublasLayout& layout, const View& view, std::int64_t stride) {
  LOCKSTEP_CUBLAS(cublasLtMatrixLayoutCreate(
      layout.out(), type_of(view.dtype), static_cast<std::uint64_t>(view.shape.last()),
      static_cast<std::uint64_t>(view.shape.rows()), stride));
}

}  // namespace

ProductCall::ProductCall(cublasLtHandle_t library, const MatrixProduct& product, bool allow_tf32)
    : library_(library), product_(product) {
  const bool tf32 = allow_tf32 && product.d.dtype == DType::f32;
  LOCKSTEP_CUBLAS(cublasLtMatmulDescCreate(
      operation_.out(), tf32 ? CUBLAS_COMPUTE_32F_FAST_TF32 : CUBLAS_COMPUTE_32F, CUDA_R_32F));
  set(operation_, CUBLASLT_MATMUL_DESC_TRANSA, whether(product.b.transposed));
  set(operation_, CUBLASLT_MATMUL_DESC_TRANSB, whether(product.a.transposed));
  if (!product.bias) return;
  set(operation_, CUBLASLT_MATMUL_DESC_EPILOGUE, CUBLASLT_EPILOGUE_BIAS);
  set(operation_, CUBLASLT_MATMUL_DESC_BIAS_POINTER, static_cast<const void*>(product.bias.data));
  set(operation_, CUBLASLT_MATMUL_DESC_BIAS_DATA_TYPE, type_of(product.bias.dtype));
}

std::vector<CublasAlgorithm> ProductCall::proposals() const {
  // Assume the smallest aligned row strides, because the choice of algorithm must not depend on the
  // actual strides.
  const auto describe_packed = [](CublasLayout& layout, const View& view) {
    describe(layout, view, aligned_stride(view.shape.last(), view.dtype));
  };
  CublasLayout first, second, to;
  describe_packed(first, product_.b.matrix);
  describe_packed(second, product_.a.matrix);
  describe_packed(to, product_.d);
  CublasPreference preference;
  LOCKSTEP_CUBLAS(cublasLtMatmulPreferenceCreate(preference.out()));
  set(preference, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, std::uint64_t{most_workspace});
  // Partial sums are added in a fixed order and in f32, never in arrival order.
  set(preference, CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK,
      std::uint32_t{CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE});
  for (const auto attribute :
       {CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES,
        CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES})
    set(preference, attribute, static_cast<std::uint32_t>(alignment));
  std::vector<CublasAlgorithm> proposals(most_proposals);
  int found = 0;
  const cublasStatus_t status = cublasLtMatmulAlgoGetHeuristic(
      library_, operation_.get(), first.get(), second.get(), to.get(), to.get(), preference.get(),
      most_proposals, proposals.data(), &found);
  if (status == CUBLAS_STATUS_NOT_SUPPORTED) return {};
  check_cublas(status, "cublasLtMatmulAlgoGetHeuristic");
  proposals.resize(static_cast<std::size_t>(found));
  std::erase_if(proposals, [](const auto& each) { return each.state != CUBLAS_STATUS_SUCCESS; });
  return proposals;
}

void ProductCall::run(Queue queue, const CublasAlgorithm& algorithm) const {
  const auto& [a, b, bias, d, accumulates] = product_;
  CublasLayout first, second, to;
  describe(first, b.matrix, b.matrix.row_stride);
  describe(second, a.matrix, a.matrix.row_stride);
  describe(to, d, d.row_stride);
  const Scratch<std::byte> workspace(queue, algorithm.workspaceSize);
  const float alpha = 1.0F, beta = accumulates ? 1.0F : 0.0F;
  LOCKSTEP_CUBLAS(cublasLtMatmul(library_, operation_.get(), &alpha, b.matrix.data, first.get(),
                                 a.matrix.data, second.get(), &beta, d.data, to.get(), d.data,
                                 to.get(), &algorithm.algo, workspace.data(),
                                 algorithm.workspaceSize, stream_of(queue)));
}

}  // namespace lockstep::cuda
