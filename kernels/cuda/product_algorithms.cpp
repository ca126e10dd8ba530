#include "kernels/cuda/product_algorithms.h"

#include <fmt/format.h>

#include <string>
#include <vector>

#include "kernels/cuda/product_timing.h"

namespace lockstep::cuda {
namespace {

/// Names a product in the table, with the kind of GPU.
std::string name_of_product(const MatrixProduct& product, bool allow_tf32) {
  int device = 0;
  cudaDeviceProp gpu{};
  LOCKSTEP_CUDA(cudaGetDevice(&device));
  LOCKSTEP_CUDA(cudaGetDeviceProperties(&gpu, device));
  return fmt::format("{} x {} x {} {}{}{}{}{}{} on {}", product.rows(), product.inner(),
                     product.columns(), name_of(product.d.dtype), allow_tf32 ? ", TF32" : "",
                     product.a.transposed ? ", A transposed" : "",
                     product.b.transposed ? ", B transposed" : "", product.bias ? ", bias" : "",
                     product.accumulates ? ", accumulates" : "", gpu.name);
}

}  // namespace

const std::optional<CublasAlgorithm>& ProductAlgorithms::find(const MatrixProduct& product,
                                                              const ProductCall& call) {
  const Key key{product.rows(),       product.columns(), product.inner(),    product.a.transposed,
                product.b.transposed, product.d.dtype,   bool{product.bias}, product.accumulates};
  const std::lock_guard lock(mutex_);
  if (const auto found = found_.find(key); found != found_.end()) return found->second;
  const std::vector<CublasAlgorithm> proposals = call.proposals();
  if (proposals.empty()) return found_.emplace(key, std::nullopt).first->second;
  const std::string name = name_of_product(product, allow_tf32_);
  const int chosen =
      table_.choice(name, [&] { return fastest_of(proposals, library_, product, allow_tf32_); });
  if (chosen < 0 || chosen >= static_cast<int>(proposals.size()))
    throw GpuError(
        fmt::format("the table of matrix products has proposal {} for {}, and cuBLASLt "
                    "makes {} proposals",
                    chosen, name, proposals.size()));
  return found_.emplace(key, proposals[static_cast<std::size_t>(chosen)]).first->second;
}

}  // namespace lockstep::cuda
