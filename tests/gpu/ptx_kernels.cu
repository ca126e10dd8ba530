#include "tests/gpu/ptx_kernels.h"

#include "kernels/cuda/launch.cuh"
#include "kernels/cuda/ptx.cuh"
#include "kernels/cuda/shared.cuh"

namespace lockstep::testing {
namespace {

using namespace lockstep::cuda;

template <class T>
__global__ void product(const std::uint16_t* a, const std::uint16_t* b, float* c) {
  const int lane = static_cast<int>(threadIdx.x), group = lane / 4, member = lane % 4;
  const auto pair = [](std::uint16_t low, std::uint16_t high) {
    return low | static_cast<std::uint32_t>(high) << 16U;
  };
  const std::uint16_t* const at = a + 16 * group + 2 * member;
  const std::uint32_t left[4] = {pair(at[0], at[1]), pair(at[128], at[129]), pair(at[8], at[9]),
                                 pair(at[136], at[137])};
  const std::uint16_t* const bt = b + 8 * (2 * member) + group;
  float* const ct = c + 8 * group + 2 * member;
  float sums[4] = {ct[0], ct[1], ct[64], ct[65]};
  ptx::mma_m16n8k16<T>(sums, left, pair(bt[0], bt[8]), pair(bt[64], bt[72]));
  ct[0] = sums[0], ct[1] = sums[1], ct[64] = sums[2], ct[65] = sums[3];
}

template <bool transposed>
__global__ void load_matrices(const std::uint16_t* matrices, std::uint32_t* received) {
  auto* const shared = dynamic_shared<std::uint16_t>();
  const int lane = static_cast<int>(threadIdx.x);
  for (int i = 0; i < 8; ++i) shared[8 * lane + i] = matrices[8 * lane + i];
  __syncwarp();
  std::uint32_t r[4];
  if (transposed)
    ptx::ldmatrix_x4_transposed(r, shared + 8 * lane);
  else
    ptx::ldmatrix_x4(r, shared + 8 * lane);
  for (int i = 0; i < 4; ++i) received[4 * lane + i] = r[i];
}

/// A copy of a vector's elements on the GPU.
template <class T>
struct OnDevice : Scratch<T> {
  explicit OnDevice(const std::vector<T>& from) : Scratch<T>({}, from.size()) {
    copy(this->data(), from.data(), from.size());
  }
  std::vector<T> back(std::size_t count) const {
    std::vector<T> result(count);
    copy(result.data(), this->data(), count);
    return result;
  }
  static void copy(T* to, const T* from, std::size_t count) {
    LOCKSTEP_CUDA(cudaMemcpyAsync(to, from, count * sizeof(T), cudaMemcpyDefault, nullptr));
    LOCKSTEP_CUDA(cudaStreamSynchronize(nullptr));
  }
};

}  // namespace

std::vector<float> mma(DType dtype, const Words& a, const Words& b, const std::vector<float>& c) {
  const OnDevice<std::uint16_t> left(a), right(b);
  const OnDevice<float> sums(c);
  launch({"mma", {}, Grid{1}, dim3(32)}, dtype == DType::bf16 ? product<Bf16> : product<F16>,
         left.data(), right.data(), sums.data());
  return sums.back(c.size());
}

std::vector<std::uint32_t> ldmatrix(const Words& matrices, bool transposed) {
  const OnDevice<std::uint16_t> from(matrices);
  const OnDevice<std::uint32_t> to(std::vector<std::uint32_t>(128));
  launch({"ldmatrix", {}, Grid{1}, dim3(32), 512},
         transposed ? load_matrices<true> : load_matrices<false>, from.data(), to.data());
  return to.back(128);
}

}  // namespace lockstep::testing
