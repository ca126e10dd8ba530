#pragma once

/// Wrappers for the products that Hopper's tensor cores compute asynchronously (wgmma; PTX ISA,
/// "Asynchronous Warpgroup Level Matrix Instructions"). They exist only on sm_90a.
///
/// A warpgroup, four consecutive warps, issues a product and continues. The right operand is read
/// from shared memory, and so is the left operand, unless it is in registers. Until the warpgroup
/// has waited for the product, it must not touch the sums, the registers of the left operand, or
/// the shared memory that is read. The products of a warpgroup run in order.
///
/// Tensor cores read shared memory through the async proxy. They see what threads have written,
/// cp.async's copies included, only after each of these threads has called fence_for_tensor_cores.
///
/// A product reads shared memory in *panels*: rows of 64 bf16 (128 bytes), at a multiple of 1,024
/// bytes. The eight 16-byte pieces of row r are permuted: piece p is stored in place of piece
/// p ^ r % 8 (the 128-byte swizzle), so that eight rows' pieces of one column fall in different
/// banks.

#include <cstdint>

#include "kernels/cuda/ptx.cuh"

namespace lockstep::cuda::ptx {

inline constexpr int panel_columns = 64;

/// Returns the offset, in elements, of 16-byte piece `piece` (0 .. 7) of row `row` in a panel.
__host__ __device__ constexpr int piece_at(int row, int piece) {
  return row * panel_columns + (piece ^ row % 8) * 8;
}

/// Describes a panel to wgmma. Bits 0-13: the address / 16; 16-29: the leading dimension's offset /
/// 16, which this swizzle does not use, if an operand is no wider than a panel; 32-45: the distance
/// of groups of eight rows / 16; 62-63: 1 for the 128-byte swizzle.
__device__ inline std::uint64_t descriptor(const void* panel, unsigned leading = 16,
                                           unsigned eight_rows = 1024) {
  const auto field = [](unsigned bytes) { return std::uint64_t{(bytes & 0x3ffffU) >> 4U}; };
  return field(shared_address(panel)) | field(leading) << 16U | field(eight_rows) << 32U |
         std::uint64_t{1} << 62U;
}
/// Moves a descriptor forward: by 16 columns, or by 16 rows.
__device__ inline std::uint64_t after_columns(std::uint64_t of, int columns) {
  return of + static_cast<unsigned>(columns * 2 / 16);
}
__device__ inline std::uint64_t after_rows(std::uint64_t of, int rows) {
  return of + static_cast<unsigned>(rows * panel_columns * 2 / 16);
}

/// Orders this thread's earlier accesses to registers before the products that follow.
__device__ inline void wgmma_fence() {
  asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
}
/// Makes the products since the last call a group.
__device__ inline void wgmma_commit() {
  asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
}
/// Waits until at most the `pending` most recent groups are still in flight.
template <int pending>
__device__ inline void wgmma_wait() {
  asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(pending) : "memory");
}
/// Makes what this thread has written to shared memory visible to tensor cores.
__device__ inline void fence_for_tensor_cores() {
  asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
}

/// (64, 64) sums of a warpgroup: warp w has rows 16 w to 16 w + 15, and its element d[j][r] is the
/// element r of mma's d (ptx.cuh) for columns 8 j to 8 j + 7.
using WgmmaSums = float[8][4];

// The instruction names all of its 32 sums.
#define LOCKSTEP_SUMS                                                                          \
  "{%0,%1,%2,%3,%4,%5,%6,%7,%8,%9,%10,%11,%12,%13,%14,%15,%16,%17,%18,%19,%20,%21,%22,%23,%24" \
  ",%25,%26,%27,%28,%29,%30,%31}"
#define LOCKSTEP_FOUR(j) "+f"(d[j][0]), "+f"(d[j][1]), "+f"(d[j][2]), "+f"(d[j][3])
#define LOCKSTEP_OPERANDS                                                                   \
  LOCKSTEP_FOUR(0), LOCKSTEP_FOUR(1), LOCKSTEP_FOUR(2), LOCKSTEP_FOUR(3), LOCKSTEP_FOUR(4), \
      LOCKSTEP_FOUR(5), LOCKSTEP_FOUR(6), LOCKSTEP_FOUR(7)

/// Starts d (64, 64) = a (64, 16) bᵀ, or +=; a and b (64, 16) are columns of panels.
template <bool adds>
__device__ inline void wgmma_shared(WgmmaSums& d, std::uint64_t a, std::uint64_t b) {
  asm volatile(
      "{.reg .pred adds; setp.ne.b32 adds, %34, 0;\n"
      "wgmma.mma_async.sync.aligned.m64n64k16.f32.bf16.bf16 " LOCKSTEP_SUMS
      ", %32, %33, adds, 1, 1, 0, 0;}"
      : LOCKSTEP_OPERANDS
      : "l"(a), "l"(b), "n"(int{adds}));
}

/// Starts d (64, 64) = a (64, 16) b, or +=; a is in registers, with each warp's rows laid out as
/// mma's a. If b_by_rows, b is 16 rows of a panel; otherwise bᵀ (64, 16) is columns of a panel.
template <bool adds, bool b_by_rows>
__device__ inline void wgmma_registers(WgmmaSums& d, const std::uint32_t (&a)[4], std::uint64_t b) {
  asm volatile(
      "{.reg .pred adds; setp.ne.b32 adds, %37, 0;\n"
      "wgmma.mma_async.sync.aligned.m64n64k16.f32.bf16.bf16 " LOCKSTEP_SUMS
      ", {%32,%33,%34,%35}, %36, adds, 1, 1, %38;}"
      : LOCKSTEP_OPERANDS
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b), "n"(int{adds}), "n"(int{b_by_rows}));
}
#undef LOCKSTEP_SUMS
#undef LOCKSTEP_FOUR
#undef LOCKSTEP_OPERANDS

}  // namespace lockstep::cuda::ptx
