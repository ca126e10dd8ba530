#include <doctest/doctest.h>

#include <array>
#include <random>
#include <string>
#include <vector>

#include "kernels/cuda/launch.cuh"
#include "kernels/cuda/ptx.cuh"
#include "kernels/cuda/shared.cuh"
#include "kernels/element.h"

// The stand-ins for tensor cores, on their own: mma against a plain product, ldmatrix against the
// manual's picture, and copies that come when they were waited for and not before.

using namespace lockstep;
using namespace lockstep::cuda;

namespace {

using Words = std::vector<std::uint16_t>;

/// One warp reads a (16, 16) and b (16, 8) from memory by the manual's table for each register,
/// written out, multiplies, and writes c (16, 8).
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
  float sums[4];
  float* const ct = c + 8 * group + 2 * member;
  const std::array<float*, 4> places{ct, ct + 1, ct + 64, ct + 65};
  for (std::size_t i = 0; i < 4; ++i) sums[i] = *places[i];
  ptx::mma_m16n8k16<T>(sums, left, pair(bt[0], bt[8]), pair(bt[64], bt[72]));
  for (std::size_t i = 0; i < 4; ++i) *places[i] = sums[i];
}

/// Four 8 x 8 matrices, one after the other, row by row; what each lane receives.
template <bool transposed>
__global__ void load_matrices(const std::uint16_t* matrices, std::uint32_t* received) {
  auto* const shared = dynamic_shared<std::uint16_t>();
  for (int i = 0; i < 8; ++i)
    shared[8 * threadIdx.x + static_cast<unsigned>(i)] =
        matrices[8 * threadIdx.x + static_cast<unsigned>(i)];
  __syncwarp();
  std::uint32_t r[4];
  if (transposed)
    ptx::ldmatrix_x4_transposed(r, shared + 8 * threadIdx.x);
  else
    ptx::ldmatrix_x4(r, shared + 8 * threadIdx.x);
  for (unsigned i = 0; i < 4; ++i) received[4 * threadIdx.x + i] = r[i];
}

/// Two groups of copies; what is there before any wait, after a wait for the first, and for both.
__global__ void copies(const float* from, float* seen) {
  auto* const shared = dynamic_shared<float>();
  shared[0] = shared[4] = shared[8] = 1.0F;
  ptx::cp_async_16(shared, from, true);
  ptx::cp_async_commit();
  ptx::cp_async_16(shared + 4, from + 4, true);
  ptx::cp_async_4(shared + 8, from, false);
  ptx::cp_async_commit();
  const auto look = [&](float* to) { to[0] = shared[0], to[1] = shared[4], to[2] = shared[8]; };
  look(seen);
  ptx::cp_async_wait<1>();
  look(seen + 3);
  ptx::cp_async_wait<0>();
  look(seen + 6);
}

template <class... Wanted, class... Given>
void run(unsigned threads, void (*kernel)(Wanted...), Given... given) {
  launch({"test", {}, dim3(1), dim3(threads), 4096}, kernel, given...);
}

}  // namespace

TEST_CASE_TEMPLATE("mma is the product of its operands, added", T, Bf16, F16) {
  std::mt19937 random{1};
  std::normal_distribution<float> normal;
  const auto number = [&] { return ptx::pack<T>(normal(random), 0.0F) & 0xffffU; };
  Words a, b;
  for (int i = 0; i < 256; ++i) a.push_back(static_cast<std::uint16_t>(number()));
  for (int i = 0; i < 128; ++i) b.push_back(static_cast<std::uint16_t>(number()));
  std::vector<float> c;
  for (int i = 0; i < 128; ++i) c.push_back(normal(random));
  const std::vector<float> before = c;
  run(32, product<T>, static_cast<const std::uint16_t*>(a.data()),
      static_cast<const std::uint16_t*>(b.data()), c.data());
  const auto wide = [](std::uint16_t bits) { return ptx::emulated::widened(T{bits}); };
  for (std::size_t i = 0; i < 16; ++i)
    for (std::size_t j = 0; j < 8; ++j) {
      double want = before[8 * i + j];
      for (std::size_t k = 0; k < 16; ++k) want += wide(a[16 * i + k]) * wide(b[8 * k + j]);
      CHECK(c[8 * i + j] == doctest::Approx(want).epsilon(1e-4));
    }
}

TEST_CASE("ldmatrix deals matrices out by rows, or by columns, as the manual draws it") {
  Words matrices;
  for (std::uint16_t i = 0; i < 256; ++i) matrices.push_back(i);
  std::vector<std::uint32_t> rows(128), columns(128);
  run(32, load_matrices<false>, static_cast<const std::uint16_t*>(matrices.data()), rows.data());
  run(32, load_matrices<true>, static_cast<const std::uint16_t*>(matrices.data()), columns.data());
  // Thread 0: the first two elements of row 0; thread 1 the next two; thread 31 the last of row 7.
  CHECK(rows[0] == 0x00010000U);
  CHECK(rows[4] == 0x00030002U);
  CHECK(rows[4 * 31] == 0x003f003eU);
  CHECK(rows[4 * 31 + 3] == 0x00ff00feU);
  // Transposed: element 0 of rows 0 and 1; of rows 2 and 3; element 7 of rows 6 and 7.
  CHECK(columns[0] == 0x00080000U);
  CHECK(columns[4] == 0x00180010U);
  CHECK(columns[4 * 31] == 0x003f0037U);
  CHECK(columns[4 * 4 + 1] == 0x00490041U);
}

TEST_CASE("a copy comes when its group was waited for, and until then there is NaN") {
  alignas(16) const float from[8] = {2, 0, 0, 0, 3, 0, 0, 0};
  float seen[9];
  run(1, copies, static_cast<const float*>(from), static_cast<float*>(seen));
  for (int i = 0; i < 3; ++i) CHECK(std::isnan(seen[i]));
  CHECK(seen[3] == 2.0F);
  CHECK(std::isnan(seen[4]));
  CHECK(seen[6] == 2.0F);
  CHECK(seen[7] == 3.0F);
  CHECK(seen[8] == 0.0F);  // from outside
}
