#pragma once

/// The CUDA language extensions that kernels use, as plain C++ on top of emulator/block.h. A .cu
/// file can thus be compiled with any compiler (g++ -x c++, with this folder first in the include
/// path).
///
/// __shared__ variables are static and placed in one section of the program, which is filled with
/// NaN before each block. The __shared__ variables of templates are not in the section (GCC bug
/// 41091 drops the attribute) and keep the values of the previous block. `inline` functions that
/// are not templates cannot have __shared__ variables.

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <functional>
#include <source_location>
#include <tuple>
#include <type_traits>

#include "emulator/arithmetic.h"
#include "emulator/block.h"
#include "emulator/runtime.h"

#define __global__
#define __device__
#define __host__
#define __constant__
// In a separate section, all shared variables can be filled with NaN before a block runs.
#ifdef EMULATED_SHARED_ANYWHERE
#define __shared__ static
#else
#define __shared__ __attribute__((section("emulated_shared"))) static
#endif
#define __launch_bounds__(...)
#define __grid_constant__
#define __forceinline__ inline __attribute__((always_inline))
#define __align__(bytes) __attribute__((aligned(bytes)))

// -- thread indices -------------------------------------------------------------------------------

struct uint3 {
  unsigned x, y, z;
};
struct dim3 {
  unsigned x = 1, y = 1, z = 1;
  constexpr dim3(unsigned x_ = 1, unsigned y_ = 1, unsigned z_ = 1) : x(x_), y(y_), z(z_) {}
};
inline constexpr int warpSize = 32;

// Set by run_grid at each switch to another thread.
extern uint3 threadIdx, blockIdx;
extern dim3 blockDim, gridDim;

// -- vectors --------------------------------------------------------------------------------------

struct alignas(8) float2 {
  float x, y;
};
struct alignas(16) float4 {
  float x, y, z, w;
};
struct alignas(8) uint2 {
  unsigned x, y;
};
struct alignas(16) uint4 {
  unsigned x, y, z, w;
};
struct alignas(8) int2 {
  int x, y;
};
struct alignas(16) int4 {
  int x, y, z, w;
};
struct alignas(16) double2 {
  double x, y;
};
inline float2 make_float2(float x, float y) {
  return {x, y};
}
inline float4 make_float4(float x, float y, float z, float w) {
  return {x, y, z, w};
}
inline uint2 make_uint2(unsigned x, unsigned y) {
  return {x, y};
}
inline uint4 make_uint4(unsigned x, unsigned y, unsigned z, unsigned w) {
  return {x, y, z, w};
}
inline int2 make_int2(int x, int y) {
  return {x, y};
}
inline int4 make_int4(int x, int y, int z, int w) {
  return {x, y, z, w};
}

// -- barriers and warps ---------------------------------------------------------------------------

inline void __syncthreads(std::source_location at = std::source_location::current()) {
  emulator::block_collective(nullptr, nullptr, at);
}
inline void __syncwarp(unsigned mask = 0xffffffffU,
                       std::source_location at = std::source_location::current()) {
  emulator::warp_collective(mask, nullptr, nullptr, at);
}

namespace emulator {

/// One thread's vote in __syncthreads_or, _and or _count.
struct Vote {
  bool mine;
  unsigned count, threads;
};
inline Vote vote(bool predicate, std::source_location at) {
  Vote vote{predicate, 0, 0};
  block_collective(
      &vote,
      [](std::span<void* const> threads) {
        unsigned count = 0, live = 0;
        for (void* thread : threads)
          if (thread != nullptr) ++live, count += static_cast<Vote*>(thread)->mine;
        for (void* thread : threads)
          if (thread != nullptr) {
            static_cast<Vote*>(thread)->count = count;
            static_cast<Vote*>(thread)->threads = live;
          }
      },
      at);
  return vote;
}

/// A lane's value, the lane it reads from, and its result.
template <class T>
struct Shuffle {
  T value;
  unsigned source;
  T result;
};
template <class T>
T shuffle(unsigned mask, T value, unsigned source, std::source_location at) {
  static_assert(std::is_trivially_copyable_v<T> && (sizeof(T) == 4 || sizeof(T) == 8));
  Shuffle<T> mine{value, source, value};
  warp_collective(
      mask, &mine,
      [](unsigned, void* const* lanes) {
        for (int i = 0; i < warpSize; ++i) {
          if (lanes[i] == nullptr) continue;
          auto& lane = *static_cast<Shuffle<T>*>(lanes[i]);
          const void* const other = lanes[lane.source];
          // A lane that does not take part provides no value: CUDA leaves the result undefined.
          if (other == nullptr)
            std::memset(&lane.result, 0xff, sizeof(T));
          else
            lane.result = static_cast<const Shuffle<T>*>(other)->value;
        }
      },
      at);
  return mine.result;
}

/// Combines all lanes' values into one. Used by __ballot_sync, __reduce_*_sync and the votes.
template <class T, class Combine>
T reduce_warp(unsigned mask, T value, Combine, std::source_location at) {
  static_assert(std::is_empty_v<Combine>, "a lambda without captures");
  Shuffle<T> mine{value, 0, value};
  warp_collective(
      mask, &mine,
      [](unsigned, void* const* lanes) {
        bool first = true;
        T all{};
        for (int i = 0; i < warpSize; ++i)
          if (lanes[i] != nullptr) {
            const T one = static_cast<Shuffle<T>*>(lanes[i])->value;
            all = first ? one : Combine{}(all, one);
            first = false;
          }
        for (int i = 0; i < warpSize; ++i)
          if (lanes[i] != nullptr) static_cast<Shuffle<T>*>(lanes[i])->result = all;
      },
      at);
  return mine.result;
}

/// Returns the first lane of the calling lane's group of `width` lanes, a power of two.
inline unsigned group_start(int width) {
  return lane() & ~static_cast<unsigned>(width - 1);
}

}  // namespace emulator

inline int __syncthreads_or(int predicate,
                            std::source_location at = std::source_location::current()) {
  return emulator::vote(predicate != 0, at).count != 0;
}
inline int __syncthreads_and(int predicate,
                             std::source_location at = std::source_location::current()) {
  const auto vote = emulator::vote(predicate != 0, at);
  return vote.count == vote.threads;
}
inline int __syncthreads_count(int predicate,
                               std::source_location at = std::source_location::current()) {
  return static_cast<int>(emulator::vote(predicate != 0, at).count);
}

template <class T>
T __shfl_sync(unsigned mask, T value, int source, int width = warpSize,
              std::source_location at = std::source_location::current()) {
  const unsigned within = static_cast<unsigned>(source) & static_cast<unsigned>(width - 1);
  return emulator::shuffle(mask, value, emulator::group_start(width) + within, at);
}
template <class T>
T __shfl_xor_sync(unsigned mask, T value, int lanes, int width = warpSize,
                  std::source_location at = std::source_location::current()) {
  const unsigned source = emulator::lane() ^ static_cast<unsigned>(lanes);
  const bool inside = source < emulator::group_start(width) + static_cast<unsigned>(width);
  return emulator::shuffle(mask, value, inside ? source : emulator::lane(), at);
}
template <class T>
T __shfl_down_sync(unsigned mask, T value, unsigned delta, int width = warpSize,
                   std::source_location at = std::source_location::current()) {
  const unsigned source = emulator::lane() + delta;
  const bool inside = source < emulator::group_start(width) + static_cast<unsigned>(width);
  return emulator::shuffle(mask, value, inside ? source : emulator::lane(), at);
}
template <class T>
T __shfl_up_sync(unsigned mask, T value, unsigned delta, int width = warpSize,
                 std::source_location at = std::source_location::current()) {
  const bool inside = emulator::lane() >= emulator::group_start(width) + delta;
  return emulator::shuffle(mask, value, inside ? emulator::lane() - delta : emulator::lane(), at);
}

inline unsigned __ballot_sync(unsigned mask, int predicate,
                              std::source_location at = std::source_location::current()) {
  const unsigned bit = predicate != 0 ? 1U << emulator::lane() : 0U;
  return emulator::reduce_warp(
      mask, bit, [](unsigned a, unsigned b) { return a | b; }, at);
}
inline int __any_sync(unsigned mask, int predicate,
                      std::source_location at = std::source_location::current()) {
  return __ballot_sync(mask, predicate, at) != 0;
}
inline int __all_sync(unsigned mask, int predicate,
                      std::source_location at = std::source_location::current()) {
  return __ballot_sync(mask, predicate, at) == mask;
}
inline unsigned __reduce_add_sync(unsigned mask, unsigned value,
                                  std::source_location at = std::source_location::current()) {
  return emulator::reduce_warp(
      mask, value, [](unsigned a, unsigned b) { return a + b; }, at);
}
inline unsigned __reduce_max_sync(unsigned mask, unsigned value,
                                  std::source_location at = std::source_location::current()) {
  return emulator::reduce_warp(
      mask, value, [](unsigned a, unsigned b) { return std::max(a, b); }, at);
}
inline unsigned __reduce_or_sync(unsigned mask, unsigned value,
                                 std::source_location at = std::source_location::current()) {
  return emulator::reduce_warp(
      mask, value, [](unsigned a, unsigned b) { return a | b; }, at);
}

// -- memory ---------------------------------------------------------------------------------------

// Fibers are not preempted, so plain reads and writes are atomic among the threads of a grid.
template <class T, class U>
T atomicAdd(T* at, U value) {
  const T before = *at;
  *at = static_cast<T>(before + static_cast<T>(value));
  return before;
}
template <class T, class U>
T atomicMax(T* at, U value) {
  const T before = *at;
  *at = std::max(before, static_cast<T>(value));
  return before;
}
template <class T, class U>
T atomicMin(T* at, U value) {
  const T before = *at;
  *at = std::min(before, static_cast<T>(value));
  return before;
}
template <class T, class U>
T atomicOr(T* at, U value) {
  const T before = *at;
  *at = before | static_cast<T>(value);
  return before;
}
template <class T, class U>
T atomicExch(T* at, U value) {
  const T before = *at;
  *at = static_cast<T>(value);
  return before;
}
template <class T>
T atomicCAS(T* at, T expected, T value) {
  const T before = *at;
  if (before == expected) *at = value;
  return before;
}
inline void __threadfence() {}
inline void __threadfence_block() {}
template <class T>
T __ldg(const T* at) {
  return *at;
}
template <class T>
T __ldcs(const T* at) {
  return *at;
}
template <class T>
void __stcs(T* at, T value) {
  *at = value;
}

// -- launches -------------------------------------------------------------------------------------

struct cudaLaunchAttribute {};
struct cudaLaunchConfig_t {
  dim3 gridDim, blockDim;
  std::size_t dynamicSmemBytes = 0;
  cudaStream_t stream = nullptr;
  cudaLaunchAttribute* attrs = nullptr;
  unsigned numAttrs = 0;
};

enum cudaFuncAttribute { cudaFuncAttributeMaxDynamicSharedMemorySize = 8 };

namespace emulator {

/// Returns an error if a GPU would immediately refuse the launch; otherwise enqueues the launch.
cudaError_t launch(const void* kernel, const cudaLaunchConfig_t& config,
                   std::function<void()> thread);
/// Allows `kernel` to use this many bytes of dynamic shared memory. (Up to 48 KiB are always
/// allowed.)
cudaError_t allow_shared(const void* kernel, int bytes);

}  // namespace emulator

template <class... Wanted, class... Given>
cudaError_t cudaLaunchKernelEx(const cudaLaunchConfig_t* config, void (*kernel)(Wanted...),
                               Given&&... given) {
  // Copies the arguments at the launch, as CUDA does.
  return emulator::launch(reinterpret_cast<const void*>(kernel), *config,
                          [kernel, arguments = std::tuple<std::decay_t<Wanted>...>(
                                       static_cast<Wanted>(std::forward<Given>(given))...)] {
                            std::apply(kernel, arguments);
                          });
}

template <class... Arguments>
cudaError_t cudaFuncSetAttribute(void (*kernel)(Arguments...), cudaFuncAttribute, int bytes) {
  return emulator::allow_shared(reinterpret_cast<const void*>(kernel), bytes);
}
