#pragma once

/// Wrappers for the few PTX instructions that CUDA C++ does not expose: tensor-core products (mma),
/// loads from shared memory in the layout that mma needs (ldmatrix), asynchronous copies from
/// global to shared memory (cp.async), and two conversions. All require sm_80 or later.
///
/// The layouts are those of the PTX ISA manual ("Matrix fragments for mma.m16n8k16 with floating
/// point type", "ldmatrix"). The manual numbers the lanes of a warp by
///
///     group  = lane / 4   (0 .. 7)
///     member = lane % 4   (0 .. 3)
///
/// and an 8 x 8 matrix of 16-bit elements is distributed over a warp as follows, one 32-bit
/// register per lane: row `group`, columns 2 member and 2 member + 1, the first of them in the
/// lower half.
///
///     row 0:  T0 T0 T1 T1 T2 T2 T3 T3
///     row 1:  T4 T4 T5 T5 T6 T6 T7 T7
///     ...
///     row 7:  T28 .............. T31 T31
///
/// All layouts below consist of such matrices.

#include <cstdint>

#include "kernels/cuda/narrow.cuh"

namespace lockstep::cuda::ptx {

/// Computes d (16, 8) += a (16, 16) b (16, 8), with sums in f32. The whole warp takes part.
///
/// a: four 8 x 8 matrices, row by row within each:      a[0] | a[2]     columns 0-7 | 8-15
///                                                      a[1] | a[3]     rows 0-7 above 8-15
/// b: two 8 x 8 matrices, stored by columns: b[0] is rows 0-7, b[1] rows 8-15; a lane has *column*
///    `group`, rows 2 member and 2 member + 1.
/// d: two 8 x 8 matrices of f32: d[0], d[1] are row `group`, columns 2 member and 2 member + 1;
///    d[2], d[3] the same columns of row `group` + 8.
///
/// So d, rounded to 16 bits and packed in pairs, has the layout of a: the result of one product can
/// be the left operand of the next without moving data between lanes.
template <class T>
__device__ void mma_m16n8k16(float (&d)[4], const std::uint32_t (&a)[4], std::uint32_t b0,
                             std::uint32_t b1);

template <>
__device__ inline void mma_m16n8k16<Bf16>(float (&d)[4], const std::uint32_t (&a)[4],
                                          std::uint32_t b0, std::uint32_t b1) {
  asm("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 "
      "{%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
      : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}

template <>
__device__ inline void mma_m16n8k16<F16>(float (&d)[4], const std::uint32_t (&a)[4],
                                         std::uint32_t b0, std::uint32_t b1) {
  asm("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 "
      "{%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
      : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}

/// Converts a generic address to one in the block's shared memory, as the instructions below
/// require.
__device__ inline std::uint32_t shared_address(const void* shared) {
  return static_cast<std::uint32_t>(__cvta_generic_to_shared(shared));
}

/// Loads four 8 x 8 matrices of 16-bit elements from shared memory. Lane l passes the address of
/// one row (8 elements, 16-byte aligned): row l % 8 of matrix l / 8. In r[i] it receives its part
/// of matrix i: row `group`, columns 2 member and 2 member + 1.
__device__ inline void ldmatrix_x4(std::uint32_t (&r)[4], const void* row) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
               : "r"(shared_address(row))
               : "memory");
}

/// Like ldmatrix_x4, but transposes each matrix: *column* `group`, rows 2 member and 2 member + 1.
__device__ inline void ldmatrix_x4_transposed(std::uint32_t (&r)[4], const void* row) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
               : "r"(shared_address(row))
               : "memory");
}

/// Starts copying 16 bytes from global to shared memory (both addresses 16-byte aligned), bypassing
/// registers and the L1 cache. If `inside` is false, writes zeros and reads nothing. The data is
/// visible to this thread after it waits for the copy's group, and to other threads after a
/// subsequent barrier.
__device__ inline void cp_async_16(void* shared, const void* global, bool inside) {
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;"
               :
               : "r"(shared_address(shared)), "l"(__cvta_generic_to_global(global)),
                 "r"(inside ? 16 : 0)
               : "memory");
}

/// Like cp_async_16, but copies 4 bytes (4-byte aligned) through the L1 cache.
__device__ inline void cp_async_4(void* shared, const void* global, bool inside) {
  asm volatile("cp.async.ca.shared.global [%0], [%1], 4, %2;"
               :
               : "r"(shared_address(shared)), "l"(__cvta_generic_to_global(global)),
                 "r"(inside ? 4 : 0)
               : "memory");
}

/// Commits this thread's copies since the last call as a group.
__device__ inline void cp_async_commit() {
  asm volatile("cp.async.commit_group;" ::: "memory");
}

/// Waits until at most the `pending` most recent groups of this thread are still in flight.
template <int pending>
__device__ inline void cp_async_wait() {
  asm volatile("cp.async.wait_group %0;" : : "n"(pending) : "memory");
}

/// Rounds two floats to nearest, ties to even, and packs them: `low` in the lower half.
template <class T>
__device__ std::uint32_t pack(float low, float high);

template <>
__device__ inline std::uint32_t pack<Bf16>(float low, float high) {
  std::uint32_t both;
  asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(both) : "f"(high), "f"(low));
  return both;
}

template <>
__device__ inline std::uint32_t pack<F16>(float low, float high) {
  std::uint32_t both;
  asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(both) : "f"(high), "f"(low));
  return both;
}

/// Computes 2^x on the special function unit: relative error 2^-22, subnormals flushed to zero,
/// 2^-∞ = 0.
__device__ inline float exp2_approximate(float x) {
  float result;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(result) : "f"(x));
  return result;
}

}  // namespace lockstep::cuda::ptx
