// The library that core loads at run time; see GpuLibrary in core/device/gpu.h. It uses core's
// headers but links none of core's code, so that a process has only one copy of that code.

#include <fmt/format.h>

#include "core/base/error.h"
#include "core/cuda/check.h"
#include "core/cuda/cuda_gpu.h"
#include "core/cuda/nccl_communicator.h"

namespace lockstep::cuda {

namespace {

GpuInfo describe(int index) {
  cudaDeviceProp properties{};
  expect_success(cudaGetDeviceProperties(&properties, index), "cudaGetDeviceProperties", index);
  char address[32] = "";
  expect_success(cudaDeviceGetPCIBusId(address, sizeof address, index), "cudaDeviceGetPCIBusId",
                 index);
  return {.name = properties.name,
          .address = address,
          .compute_capability = 10 * properties.major + properties.minor,
          .multiprocessors = properties.multiProcessorCount,
          .memory = static_cast<std::int64_t>(properties.totalGlobalMem)};
}

/// Formats CUDA's version numbers, for example 13020 as 13.2.
std::string dotted(int version) {
  return fmt::format("{}.{}", version / 1000, version % 1000 / 10);
}

class CudaLibrary final : public GpuLibrary {
 public:
  /// Queries the driver without creating a context on any GPU. The list of GPUs is empty if there
  /// is no driver, or if the driver finds no GPU. Throws UsageError if the driver is too old for
  /// this CUDA.
  CudaLibrary() {
    int count = 0;
    const cudaError_t status = cudaGetDeviceCount(&count);
    if (status == cudaErrorNoDevice || driver() == 0) {
      cudaGetLastError();
      return;
    }
    if (status != cudaSuccess)
      throw UsageError{fmt::format("--device cuda: {} ({}); this is {}", cudaGetErrorName(status),
                                   cudaGetErrorString(status), versions())};
    for (int i = 0; i < count; ++i) gpus_.push_back(describe(i));
  }

  const std::vector<GpuInfo>& gpus() const override { return gpus_; }

  using GpuLibrary::open;
  std::unique_ptr<Gpu> open(int index, bool allow_tf32) override {
    if (index < 0 || static_cast<std::size_t>(index) >= gpus_.size())
      throw GpuError{
          fmt::format("there is no GPU {}; the number of GPUs visible to this process is {}", index,
                      gpus_.size())};
    return std::make_unique<CudaGpu>(index, gpus_[static_cast<std::size_t>(index)], allow_tf32);
  }

  bool has_nccl() const override { return nccl::is_here; }

  std::string versions() const override {
    int runtime = 0;
    expect_success(cudaRuntimeGetVersion(&runtime), "cudaRuntimeGetVersion", 0);
    return fmt::format("CUDA {}, {}, {}", dotted(runtime),
                       driver() == 0 ? "no driver" : "driver " + dotted(driver()), nccl::version());
  }

 private:
  /// Returns the newest CUDA version that the driver supports, or 0 if there is no driver.
  static int driver() {
    int version = 0;
    expect_success(cudaDriverGetVersion(&version), "cudaDriverGetVersion", 0);
    return version;
  }

  std::vector<GpuInfo> gpus_;
};

}  // namespace

}  // namespace lockstep::cuda

/// The only symbol that this library exports. Throws UsageError if the driver can't be used.
extern "C" __attribute__((visibility("default"))) lockstep::GpuLibrary* lockstep_gpu_library() {
  static lockstep::cuda::CudaLibrary library;
  return &library;
}
