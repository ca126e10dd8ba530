#include <doctest/doctest.h>

#include <numeric>
#include <string>
#include <vector>

#include "cub/cub.cuh"
#include "emulator/device.h"
#include "kernels/cuda/shared.cuh"

// The emulator's purpose is to find mistakes; this file makes each kind of mistake once.
namespace {

/// Returns the launch's error message, or "" if there is none.
template <class... Wanted, class... Given>
std::string complaint(unsigned blocks, unsigned threads, void (*kernel)(Wanted...),
                      Given... given) {
  const cudaLaunchConfig_t config{.gridDim = {blocks}, .blockDim = {threads}};
  CHECK(cudaLaunchKernelEx(&config, kernel, given...) == cudaSuccess);
  const cudaError_t error = cudaStreamSynchronize(nullptr);
  const std::string words = emulator::take_failure();
  CHECK(error == (words.empty() ? cudaSuccess : cudaErrorLaunchFailure));
  return words;
}

bool contains(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

/// Reverses each block's elements through shared memory.
template <bool with_barrier>
__global__ void reverse(const int* in, int* out) {
  __shared__ int tile[64];
  tile[threadIdx.x] = in[blockIdx.x * 64 + threadIdx.x];
  if (with_barrier) __syncthreads();
  out[blockIdx.x * 64 + threadIdx.x] = tile[63 - threadIdx.x];
}

std::vector<int> reversed(bool with_barrier) {
  std::vector<int> in(256), out(256);
  std::iota(in.begin(), in.end(), 0);
  CHECK(complaint(4, 64, with_barrier ? reverse<true> : reverse<false>,
                  static_cast<const int*>(in.data()), out.data()) == "");
  return out;
}

__global__ void diverging_barriers() {
  if (threadIdx.x % 2 == 0)
    __syncthreads();
  else
    __syncthreads();
}

__global__ void barrier_and_shuffle(int* out) {
  if (threadIdx.x == 3)
    __syncthreads();
  else
    *out = __shfl_sync(0xffffffffU, 1, 0);
}

__global__ void returns_before_shuffle(int* out) {
  if (threadIdx.x == 31) return;
  *out = __shfl_xor_sync(0xffffffffU, 1, 1);
}

__global__ void masks_disagree(int* out) {
  *out = __shfl_sync(threadIdx.x < 16 ? 0xffffffffU : 0xffff0000U, 1, 16);
}

__global__ void warp_sums(const float* in, float* out) {
  float sum = in[threadIdx.x];
  for (int step = 16; step > 0; step /= 2) sum += __shfl_xor_sync(0xffffffffU, sum, step);
  out[threadIdx.x] = sum;
}

template <bool with_barrier>
__global__ void two_block_sums(float* out) {
  using Reduce = cub::BlockReduce<float, 96>;
  __shared__ Reduce::TempStorage storage;
  const float first = Reduce(storage).Sum(static_cast<float>(threadIdx.x));
  if (with_barrier) __syncthreads();
  const float second = Reduce(storage).Sum(1.0F);
  out[threadIdx.x] = threadIdx.x == 0 ? first + second : first;
}

__global__ void reads_unwritten_shared(float* out) {
  __shared__ float fixed[32];
  const float* const dynamic = lockstep::cuda::dynamic_shared<float>();
  out[threadIdx.x] = threadIdx.x % 2 == 0 ? fixed[threadIdx.x] : dynamic[threadIdx.x];
}

__global__ void coordinates(int* visits) {
  const unsigned block = (blockIdx.z * gridDim.y + blockIdx.y) * gridDim.x + blockIdx.x;
  const unsigned thread = (threadIdx.z * blockDim.y + threadIdx.y) * blockDim.x + threadIdx.x;
  atomicAdd(&visits[block * 60 + thread], 1);
}

}  // namespace

TEST_CASE("a kernel is right for every seed with its barrier, and for none without") {
  for (std::uint64_t seed = 1; seed < 20; ++seed) {
    emulator::seed(seed);
    std::vector<int> want(256);
    for (int i = 0; i < 256; ++i) want[static_cast<std::size_t>(i)] = i / 64 * 64 + 63 - i % 64;
    CHECK(reversed(true) == want);
    CHECK(reversed(false) != want);
  }
}

TEST_CASE("the same seed gives the same order") {
  emulator::seed(7);
  const auto first = reversed(false);
  const auto second = reversed(false);
  emulator::seed(7);
  CHECK(reversed(false) == first);
  CHECK(reversed(false) == second);
  CHECK(first != second);
}

TEST_CASE(
    "barriers that not all threads reach, or different barriers, are reported with their "
    "location") {
  const std::string diverged = complaint(1, 32, diverging_barriers);
  CHECK(contains(diverged, "came here while others of its block wait"));
  CHECK(contains(diverged, "diverging_barriers"));
  CHECK(contains(diverged, "test_emulator.cpp"));
  int out = 0;
  const std::string stuck = complaint(1, 32, barrier_and_shuffle, &out);
  CHECK(contains(stuck, "can go on"));
  CHECK(contains(stuck, "1 wait in"));
  CHECK(contains(stuck, "31 wait in"));
}

TEST_CASE("warp operations with missing lanes or different masks are reported") {
  int out = 0;
  const std::string missing = complaint(1, 32, returns_before_shuffle, &out);
  CHECK(contains(missing, "of 32 threads 1 have returned"));
  CHECK(contains(missing, "31 wait in"));
  CHECK(contains(missing, "returns_before_shuffle"));
  // In a block of half a warp, lanes are missing too.
  CHECK(
      contains(complaint(1, 16, warp_sums, static_cast<const float*>(std::vector<float>(32).data()),
                         std::vector<float>(32).data()),
               "16 wait in"));
  CHECK(contains(complaint(1, 32, masks_disagree, &out), "others of its mask wait"));
}

TEST_CASE("shuffles and block reductions add up") {
  for (std::uint64_t seed = 1; seed < 10; ++seed) {
    emulator::seed(seed);
    std::vector<float> in(64), out(96);
    std::iota(in.begin(), in.end(), 0.0F);
    CHECK(complaint(1, 64, warp_sums, static_cast<const float*>(in.data()), out.data()) == "");
    for (std::size_t i = 0; i < 64; ++i) CHECK(out[i] == (i < 32 ? 496.0F : 1520.0F));
    CHECK(complaint(1, 96, two_block_sums<true>, out.data()) == "");
    CHECK(out[0] == 95 * 96 / 2 + 96);
    // CUB defines the result only in thread 0.
    CHECK(std::isnan(out[1]));
  }
}

TEST_CASE("reusing TempStorage without a barrier is reported") {
  std::vector<float> out(96);
  CHECK(contains(complaint(1, 96, two_block_sums<false>, out.data()), "TempStorage"));
}

TEST_CASE("shared memory is NaN before it is written, in every block") {
  std::vector<float> out(32, 0.0F);
  const cudaLaunchConfig_t config{
      .gridDim = {2}, .blockDim = {32}, .dynamicSmemBytes = 32 * sizeof(float)};
  CHECK(cudaLaunchKernelEx(&config, reads_unwritten_shared, out.data()) == cudaSuccess);
  cudaStreamSynchronize(nullptr);
  for (const float one : out) CHECK(std::isnan(one));
}

TEST_CASE("every thread of a three-dimensional grid runs once") {
  std::vector<int> visits(24 * 60, 0);
  const cudaLaunchConfig_t config{.gridDim = {2, 3, 4}, .blockDim = {5, 4, 3}};
  CHECK(cudaLaunchKernelEx(&config, coordinates, visits.data()) == cudaSuccess);
  cudaStreamSynchronize(nullptr);
  CHECK(visits == std::vector<int>(24 * 60, 1));
}

TEST_CASE("a launch that a GPU would refuse is refused") {
  const auto launch = [](dim3 blocks, dim3 threads, std::size_t shared) {
    std::vector<int> visits(100'000, 0);
    const cudaLaunchConfig_t config{
        .gridDim = blocks, .blockDim = threads, .dynamicSmemBytes = shared};
    const cudaError_t error = cudaLaunchKernelEx(&config, coordinates, visits.data());
    cudaStreamSynchronize(nullptr);
    return error;
  };
  CHECK(launch({0}, {32}, 0) != cudaSuccess);
  CHECK(launch({1, 65536}, {32}, 0) != cudaSuccess);
  CHECK(launch({1}, {0}, 0) != cudaSuccess);
  CHECK(launch({1}, {33, 32}, 0) != cudaSuccess);
  CHECK(launch({1}, {1, 1, 65}, 0) != cudaSuccess);
  CHECK(launch({1}, {32}, 48 * 1024 + 1) != cudaSuccess);
  CHECK(cudaFuncSetAttribute(coordinates, cudaFuncAttributeMaxDynamicSharedMemorySize,
                             100 * 1024) == cudaSuccess);
  CHECK(launch({1}, {32}, 100 * 1024) == cudaSuccess);
  CHECK(launch({1}, {32}, 100 * 1024 + 1) != cudaSuccess);
}
