#pragma once

/// Replaces kernels/cuda/ptx.cuh with the same functions, written only from the tables and figures
/// of the PTX ISA manual. Each function gathers a warp's registers into whole matrices
/// according to the manual's formulas, applies the operation to the matrices, and distributes the
/// result back to the registers. A kernel that confuses two elements therefore computes a wrong
/// result on the emulator too.
///
/// Asynchronous copies complete as late as allowed. When a copy starts, it fills its destination
/// with NaN; the copied bytes arrive when the thread that started the copy waits for the copy's
/// group. A kernel that omits the wait, or the barrier after it, reads NaN.

#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <vector>

#include "emulator/device.h"
#include "kernels/cuda/narrow.cuh"
#include "kernels/element.h"

namespace lockstep::cuda {

namespace ptx {
namespace emulated {

/// Returns element i (0 or 1) of a register that holds two elements; element 0 is the lower half.
template <class T>
float element_of(std::uint32_t pair, int i) {
  return widen(T{static_cast<std::uint16_t>(pair >> (16 * i))});
}

struct Mma {
  float* d;
  const std::uint32_t* a;
  std::uint32_t b[2];
};

/// "Matrix fragments for mma.m16n8k16 with floating point type": with groupID = lane >> 2 and
/// threadID_in_group = lane % 4,
///   A, ai for i = 0 .. 7: row = groupID      for 0 <= i < 2 or 4 <= i < 6, else groupID + 8
///                         col = threadID_in_group * 2 + (i & 1), + 8 for i >= 4
///   B, bi for i = 0 .. 3: row = threadID_in_group * 2 + (i & 1), + 8 for i >= 2;  col = groupID
///   C, ci for i = 0 .. 3: row = groupID, + 8 for i >= 2;  col = threadID_in_group * 2 + (i & 1)
template <class T>
void finish_mma(unsigned, void* const* lanes) {
  float a[16][16], b[16][8], c[16][8];
  for (int lane = 0; lane < 32; ++lane) {
    const auto& mine = *static_cast<const Mma*>(lanes[lane]);
    const int group = lane >> 2, in_group = lane % 4;
    for (int i = 0; i < 8; ++i) {
      const bool upper = i < 2 || (4 <= i && i < 6);
      a[upper ? group : group + 8][in_group * 2 + (i & 1) + (i >= 4 ? 8 : 0)] =
          element_of<T>(mine.a[i / 2], i % 2);
    }
    for (int i = 0; i < 4; ++i) {
      b[in_group * 2 + (i & 1) + (i >= 2 ? 8 : 0)][group] = element_of<T>(mine.b[i / 2], i % 2);
      c[i < 2 ? group : group + 8][in_group * 2 + (i & 1)] = mine.d[i];
    }
  }
  for (int lane = 0; lane < 32; ++lane) {
    const auto& mine = *static_cast<const Mma*>(lanes[lane]);
    const int group = lane >> 2, in_group = lane % 4;
    for (int i = 0; i < 4; ++i) {
      const int row = i < 2 ? group : group + 8, column = in_group * 2 + (i & 1);
      // The hardware's summation order is unspecified. The emulator adds exact products in f32, in
      // ascending order of k.
      float sum = c[row][column];
      for (int k = 0; k < 16; ++k) sum += a[row][k] * b[k][column];
      mine.d[i] = sum;
    }
  }
}

struct LoadMatrix {
  std::uint32_t* r;
  const std::byte* row;
};

/// "ldmatrix": threads 8i .. 8i + 7 provide the addresses of the rows of matrix i. Thread l
/// receives from each matrix elements 2 (l % 4) and 2 (l % 4) + 1 of row l / 4; with .trans the
/// matrix is loaded in column-major form.
template <bool transposed>
void finish_ldmatrix(unsigned, void* const* lanes) {
  for (int lane = 0; lane < 32; ++lane)
    for (int matrix = 0; matrix < 4; ++matrix) {
      std::uint16_t pair[2];
      for (int i = 0; i < 2; ++i) {
        const int at = lane / 4, along = lane % 4 * 2 + i;
        const int row = transposed ? along : at, column = transposed ? at : along;
        const auto& owner = *static_cast<const LoadMatrix*>(lanes[8 * matrix + row]);
        std::memcpy(&pair[i], owner.row + 2 * column, 2);
      }
      static_cast<const LoadMatrix*>(lanes[lane])->r[matrix] = pair[0] | std::uint32_t{pair[1]}
                                                                             << 16U;
    }
}

template <bool transposed>
void ldmatrix(std::uint32_t (&r)[4], const void* row, std::source_location at) {
  if (reinterpret_cast<std::uintptr_t>(row) % 16 != 0)
    emulator::fail("ldmatrix wants rows at multiples of 16 bytes", at);
  LoadMatrix mine{r, static_cast<const std::byte*>(row)};
  emulator::warp_collective(0xffffffffU, &mine, finish_ldmatrix<transposed>, at);
}

/// An unfinished asynchronous copy, with the bytes that will arrive.
struct Copy {
  void* to;
  std::byte bytes[16];
  int count;
  unsigned group;
};
struct Copies {
  unsigned open = 0;  ///< the group of the next copy
  std::vector<Copy> pending;
};

/// The running thread's unfinished copies, in the order in which they started.
inline Copies& copies(std::source_location at) {
  static std::array<Copies, 1024> all;
  static uint3 block{};
  if (block.x != blockIdx.x || block.y != blockIdx.y || block.z != blockIdx.z) {
    block = blockIdx;
    for (Copies& left : all) {
      if (!left.pending.empty())
        emulator::fail("copies of an earlier block were started and never waited for", at);
      left.open = 0;
    }
  }
  return all[emulator::thread_rank()];
}

inline void cp_async(void* to, const void* from, int count, bool inside, std::source_location at) {
  const auto multiple = [count](const void* address) {
    return reinterpret_cast<std::uintptr_t>(address) % static_cast<unsigned>(count) == 0;
  };
  if (!multiple(to) || !multiple(from))
    emulator::fail("cp.async wants both addresses at multiples of its size", at);
  Copies& mine = copies(at);
  Copy copy{to, {}, count, mine.open};
  if (inside) std::memcpy(copy.bytes, from, static_cast<std::size_t>(count));
  mine.pending.push_back(copy);
  std::memset(to, 0xff, static_cast<std::size_t>(count));
}

}  // namespace emulated

template <class T>
void mma_m16n8k16(float (&d)[4], const std::uint32_t (&a)[4], std::uint32_t b0, std::uint32_t b1,
                  std::source_location at = std::source_location::current()) {
  emulated::Mma mine{d, a, {b0, b1}};
  emulator::warp_collective(0xffffffffU, &mine, emulated::finish_mma<T>, at);
}

inline void ldmatrix_x4(std::uint32_t (&r)[4], const void* row,
                        std::source_location at = std::source_location::current()) {
  emulated::ldmatrix<false>(r, row, at);
}
inline void ldmatrix_x4_transposed(std::uint32_t (&r)[4], const void* row,
                                   std::source_location at = std::source_location::current()) {
  emulated::ldmatrix<true>(r, row, at);
}

inline void cp_async_16(void* shared, const void* global, bool inside,
                        std::source_location at = std::source_location::current()) {
  emulated::cp_async(shared, global, 16, inside, at);
}
inline void cp_async_4(void* shared, const void* global, bool inside,
                       std::source_location at = std::source_location::current()) {
  emulated::cp_async(shared, global, 4, inside, at);
}
inline void cp_async_commit(std::source_location at = std::source_location::current()) {
  ++emulated::copies(at).open;
}
template <int pending>
void cp_async_wait(std::source_location at = std::source_location::current()) {
  emulated::Copies& mine = emulated::copies(at);
  std::vector<emulated::Copy> later;
  for (const emulated::Copy& copy : mine.pending)
    if (copy.group + pending < mine.open)
      std::memcpy(copy.to, copy.bytes, static_cast<std::size_t>(copy.count));
    else
      later.push_back(copy);
  mine.pending = later;
}

template <class T>
std::uint32_t pack(float low, float high) {
  const auto rounded = [](float x) {
    return std::is_same_v<T, Bf16> ? element::to_bf16(x) : element::to_f16(x);
  };
  return rounded(low) | static_cast<std::uint32_t>(rounded(high)) << 16U;
}

inline float exp2_approximate(float x) {
  return std::exp2(x);
}

}  // namespace ptx
}  // namespace lockstep::cuda
