/// The first program to run on hardware: the kernels and the emulator share one reading of the bits
/// of wgmma's descriptors, and only a GPU can refute it. Multiplies small integers in four ways
/// that attention uses, each with four settings of the descriptor's offsets, and prints the largest
/// difference from plain arithmetic. The setting that the kernels use must give 0 everywhere;
/// otherwise the others show which field means what. (The swizzle is tested by each product.)
///
///   wgmma_encodings

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <exception>
#include <random>
#include <utility>
#include <vector>

#include "kernels/cuda/launch.cuh"
#include "kernels/cuda/shared.cuh"
#include "kernels/element.h"
#include "tests/gpu/variants/wgmma.cuh"

namespace lockstep::cuda {
namespace {

constexpr int rows = 64, columns = 128, panel = rows * ptx::panel_columns;

/// How the operands reach the tensor cores.
enum class Way { shared, registers, by_rows, two_panels };
constexpr const char* names[] = {"a bT, both in shared memory", "a bT, a in registers",
                                 "a b, a in registers", "a bT, two panels"};

/// Computes d (64, 64) = a bᵀ over the first 64 columns (two_panels: all 128), or a b over the
/// first 64 columns of a and all rows of b (by_rows). a and b are (64, 128).
template <Way way>
__global__ void multiply(const Bf16* a, const Bf16* b, unsigned leading, unsigned eight_rows,
                         float* d) {
  auto* const left = dynamic_shared<Bf16>();
  Bf16* const right = left + 2 * panel;
  const int thread = static_cast<int>(threadIdx.x), warp = thread / 32, lane = thread % 32;
  for (int i = thread; i < rows * columns; i += 128) {
    const int row = i / columns, column = i % columns;
    const int at = column / 64 * panel + ptx::piece_at(row, column % 64 / 8) + column % 8;
    left[at] = a[i], right[at] = b[i];
  }
  ptx::fence_for_tensor_cores();
  __syncthreads();
  ptx::WgmmaSums sums = {};
  std::uint32_t parts[4][4];
  for (int k = 0; k < 4; ++k)
    ptx::ldmatrix_x4(parts[k], left + ptx::piece_at(16 * warp + lane % 16, 2 * k + lane / 16));
  const auto describe = [&](const Bf16* at) { return ptx::descriptor(at, leading, eight_rows); };
  ptx::wgmma_fence();
#pragma unroll
  for (int k = 0; k < (way == Way::two_panels ? 8 : 4); ++k) {
    const int at = k / 4 * panel;
    const std::uint64_t b_columns = ptx::after_columns(describe(right + at), k % 4 * 16);
    if constexpr (way == Way::by_rows)
      ptx::wgmma_registers<true, true>(sums, parts[k], ptx::after_rows(describe(right), 16 * k));
    else if constexpr (way == Way::registers)
      ptx::wgmma_registers<true, false>(sums, parts[k], b_columns);
    else
      ptx::wgmma_shared<true>(sums, ptx::after_columns(describe(left + at), k % 4 * 16), b_columns);
  }
  ptx::wgmma_commit();
  ptx::wgmma_wait<0>();
  for (int j = 0; j < 8; ++j)
    for (int r = 0; r < 4; ++r)
      d[(16 * warp + lane / 4 + r / 2 * 8) * 64 + 8 * j + lane % 4 * 2 + r % 2] = sums[j][r];
}

/// Returns the largest difference from plain arithmetic.
template <Way way>
float largest_error(const std::vector<int>& a, const std::vector<int>& b, unsigned leading,
                    unsigned eight_rows) {
  const auto on_device = [](const std::vector<int>& from, const Scratch<Bf16>& to) {
    std::vector<Bf16> elements;
    for (const int x : from) elements.push_back({element::to_bf16(static_cast<float>(x))});
    LOCKSTEP_CUDA(cudaMemcpyAsync(to.data(), elements.data(), elements.size() * sizeof(Bf16),
                                  cudaMemcpyHostToDevice, nullptr));
    LOCKSTEP_CUDA(cudaStreamSynchronize(nullptr));
  };
  const Scratch<Bf16> left({}, rows * columns), right({}, rows * columns);
  const Scratch<float> sums({}, rows * 64);
  on_device(a, left), on_device(b, right);
  launch({"wgmma", {}, Grid{1}, dim3(128), 4 * panel * sizeof(Bf16)}, multiply<way>, left.data(),
         right.data(), leading, eight_rows, sums.data());
  std::vector<float> d(rows * 64);
  LOCKSTEP_CUDA(cudaMemcpyAsync(d.data(), sums.data(), d.size() * sizeof(float),
                                cudaMemcpyDeviceToHost, nullptr));
  LOCKSTEP_CUDA(cudaStreamSynchronize(nullptr));
  float worst = 0.0F;
  for (int i = 0; i < rows; ++i)
    for (int j = 0; j < 64; ++j) {
      int want = 0;
      for (int k = 0; k < (way == Way::two_panels ? columns : 64); ++k)
        want +=
            a[static_cast<std::size_t>(i * columns + k)] *
            b[static_cast<std::size_t>(way == Way::by_rows ? k * columns + j : j * columns + k)];
      const float difference =
          std::abs(d[static_cast<std::size_t>(i * 64 + j)] - static_cast<float>(want));
      worst = std::isnan(difference) ? INFINITY : std::max(worst, difference);
    }
  return worst;
}

template <Way way>
bool print_way() {
  std::mt19937 engine{1};
  std::uniform_int_distribution<int> small{-4, 4};
  std::vector<int> a(rows * columns), b(rows * columns);
  for (int& x : a) x = small(engine);
  for (int& x : b) x = small(engine);
  std::printf("%-29s", names[static_cast<int>(way)]);
  const float used = largest_error<way>(a, b, 16, 1024);
  std::printf("%9g", used);
  for (const auto& [leading, eight_rows] : {std::pair{0U, 1024U}, {1024U, 1024U}, {1024U, 16U}})
    std::printf("%15g", largest_error<way>(a, b, leading, eight_rows));
  std::printf("\n");
  return used == 0.0F;
}

}  // namespace

int run_encodings() {
  std::printf("largest difference from plain arithmetic, by leading and eight-row distance\n");
  std::printf("%-29s%9s%15s%15s%15s\n", "", "16, 1024", "0, 1024", "1024, 1024", "1024, 16");
  bool right = print_way<Way::shared>();
  right = print_way<Way::registers>() && right;
  right = print_way<Way::by_rows>() && right;
  right = print_way<Way::two_panels>() && right;
  std::printf("variant encodings as the kernels use them: %d of 1\n", right ? 1 : 0);
  return right ? 0 : 1;
}

}  // namespace lockstep::cuda

int main() {
  try {
    return lockstep::cuda::run_encodings();
  } catch (const std::exception& error) {
    std::fprintf(stderr, "wgmma_encodings: %s\n", error.what());
    return 1;
  }
}
