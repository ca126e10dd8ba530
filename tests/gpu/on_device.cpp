#include "tests/gpu/on_device.h"

#include <cuda_runtime.h>
#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <limits>
#include <stdexcept>
#include <type_traits>
#include <vector>

#include "kernels/cuda/check.h"
#include "kernels/cuda/cuda_kernels.h"
#include "kernels/every_kernel.h"
#include "tests/kernels/support.h"

namespace lockstep::testing {
namespace {

/// The host memory that a call may access, [begin, end), and its copy on the GPU between two
/// margins.
struct Region {
  std::byte *begin, *end;
  std::byte* device = nullptr;  // start of the allocation
  std::size_t first = 0;        // offset of `begin` in the allocation
  /// The margin's fill byte. It gives a large number in every type, and differs between regions, so
  /// results computed from different margins do not match by chance. (With NaN, all such results
  /// would be NaN.)
  std::byte poison{};

  static constexpr std::size_t margin = 512, alignment = 256;
  std::size_t bytes() const { return static_cast<std::size_t>(end - begin); }
  std::size_t allocated() const { return first + bytes() + margin; }
};

/// Makes a kernel's views refer to GPU memory until finish().
class Transfer {
 public:
  explicit Transfer(const std::vector<View*>& views) {
    LOCKSTEP_CUDA(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking));
    for (const View* view : views) add(*view);
    merge();
    for (Region& region : regions_) upload(region);
    for (View* view : views)
      for (const Region& region : regions_)
        if (auto* data = static_cast<std::byte*>(view->data);
            data != nullptr && data >= region.begin && data < region.end) {
          view->data = region.device + region.first + (data - region.begin);
          break;
        }
  }
  ~Transfer() {
    for (const Region& region : regions_) static_cast<void>(cudaFreeAsync(region.device, stream_));
    static_cast<void>(cudaStreamSynchronize(stream_));
    static_cast<void>(cudaStreamDestroy(stream_));
  }
  Transfer(const Transfer&) = delete;
  Transfer& operator=(const Transfer&) = delete;

  Queue queue() const { return {stream_}; }

  void finish() {
    for (const Region& region : regions_) {
      std::vector<std::byte> copy(region.allocated());
      LOCKSTEP_CUDA(cudaMemcpyAsync(copy.data(), region.device, copy.size(), cudaMemcpyDeviceToHost,
                                    stream_));
      LOCKSTEP_CUDA(cudaStreamSynchronize(stream_));
      for (std::size_t i = 0; i < copy.size(); ++i)
        if ((i < region.first || i >= region.first + region.bytes()) && copy[i] != region.poison)
          throw std::logic_error(fmt::format(
              "a kernel wrote {} bytes {} its arguments",
              i < region.first ? region.first - i : i - region.first - region.bytes() + 1,
              i < region.first ? "before" : "past"));
      // Does not write unchanged bytes, because another thread may be reading them.
      if (std::memcmp(region.begin, copy.data() + region.first, region.bytes()) != 0)
        std::memcpy(region.begin, copy.data() + region.first, region.bytes());
    }
  }

 private:
  void add(const View& view) {
    if (view.data == nullptr || view.elements() == 0) return;
    const std::int64_t elements =
        (view.shape.rows() - 1) * std::max<std::int64_t>(view.row_stride, 0) + view.shape.last();
    auto* const data = static_cast<std::byte*>(view.data);
    regions_.push_back({data, data + static_cast<std::size_t>(elements) * size_of(view.dtype)});
  }

  void merge() {
    std::sort(regions_.begin(), regions_.end(),
              [](const Region& a, const Region& b) { return a.begin < b.begin; });
    std::vector<Region> merged;
    for (const Region& region : regions_)
      if (!merged.empty() && region.begin < merged.back().end)
        merged.back().end = std::max(merged.back().end, region.end);
      else
        merged.push_back(region);
    regions_ = merged;
  }

  void upload(Region& region) {
    region.first =
        Region::margin + reinterpret_cast<std::uintptr_t>(region.begin) % Region::alignment;
    void* device = nullptr;
    LOCKSTEP_CUDA(cudaMallocAsync(&device, region.allocated(), stream_));
    region.device = static_cast<std::byte*>(device);
    region.poison = static_cast<std::byte>(0xf1 + (&region - regions_.data()) % 10);
    std::vector<std::byte> copy(region.allocated(), region.poison);
    std::memcpy(copy.data() + region.first, region.begin, region.bytes());
    LOCKSTEP_CUDA(
        cudaMemcpyAsync(region.device, copy.data(), copy.size(), cudaMemcpyHostToDevice, stream_));
    LOCKSTEP_CUDA(cudaStreamSynchronize(stream_));
  }

  cudaStream_t stream_ = nullptr;
  std::vector<Region> regions_;
};

template <class T>
void add_if_view(std::vector<View*>& views, T& argument) {
  if constexpr (std::is_base_of_v<View, T>) views.push_back(&argument);
}

void add_if_view(std::vector<View*>& views, Ins& list) {
  for (In& each : list) views.push_back(&each);
}
void add_if_view(std::vector<View*>& views, Outs& list) {
  for (Out& each : list) views.push_back(&each);
}
void add_if_view(std::vector<View*>& views, std::vector<AdamWTensor>& list) {
  for (AdamWTensor& each : list)
    for (View* view : std::initializer_list<View*>{&each.parameter, &each.gradient, &each.momentum,
                                                   &each.variance, &each.rounded})
      views.push_back(view);
}

/// Returns a kernel that copies its arguments to the GPU, runs `kernel`, and copies them back.
template <class Result, class... Arguments>
Kernel<Result(Queue, Arguments...)> kernel_on_device(
    const Kernel<Result(Queue, Arguments...)>& kernel) {
  return [kernel](Queue, Arguments... arguments) -> Result {
    std::vector<View*> views;
    (add_if_view(views, arguments), ...);
    Transfer transfer(views);
    if constexpr (std::is_void_v<Result>) {
      kernel(transfer.queue(), arguments...);
      transfer.finish();
    } else {
      const Result result = kernel(transfer.queue(), arguments...);
      transfer.finish();
      return result;
    }
  };
}

}  // namespace

Kernels on_device(const Kernels& kernels) {
  Kernels result;
  for_each_kernel(
      [&](const char*, auto kernel) { result.*kernel = kernel_on_device(kernels.*kernel); });
  for_each_fusion(
      [&](const char*, auto fusion) { result.*fusion = kernel_on_device(kernels.*fusion); });
  return result;
}

const Kernels& kernels() {
  static const Kernels kernels = [] {
    int devices = 0;
    if (const cudaError_t error = cudaGetDeviceCount(&devices);
        error != cudaSuccess || devices == 0) {
      std::fprintf(stderr, "There is no GPU here (%s), and this program tests its kernels.\n",
                   cudaGetErrorString(error));
      std::exit(2);
    }
    // By default, each synchronization returns the pool's free memory to the system.
    cudaMemPool_t pool = nullptr;
    LOCKSTEP_CUDA(cudaDeviceGetDefaultMemPool(&pool, 0));
    std::uint64_t keep = std::numeric_limits<std::uint64_t>::max();
    LOCKSTEP_CUDA(cudaMemPoolSetAttribute(pool, cudaMemPoolAttrReleaseThreshold, &keep));
    return on_device(make_cuda_kernels());
  }();
  return kernels;
}

bool on_cpu() {
  return false;
}

}  // namespace lockstep::testing
