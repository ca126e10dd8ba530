#pragma once

/// Tiles in shared memory and their products by warpgroups: the building blocks of
/// attention_hopper_forward.cu and attention_hopper_backward.cu. Read
/// kernels/cuda/attention_tile.cuh first; masks, softmax and positions are the same.
///
/// A block consists of two or three warpgroups. Each owns 64 rows of the block's result and
/// iterates over the other operand in tiles of 64 rows. All products are (64, 64) by 16: wider
/// heads take several. A tile of D columns lies in shared memory as D / 64 panels (wgmma.cuh), one
/// after the other.

#include "kernels/cuda/attention_launch.cuh"
#include "kernels/cuda/attention_tile.cuh"
#include "tests/gpu/variants/wgmma.cuh"

namespace lockstep::cuda::hopper {

using ptx::panel_columns;
using ptx::WgmmaSums;

inline constexpr int group_rows = 64;  ///< of a warpgroup
inline constexpr int group_threads = 128;
inline constexpr int tile = 64;  ///< rows of a tile of the other operand

template <int D>
inline constexpr int panels = D / panel_columns;

/// A thread's part of a warpgroup's (64, D) sums.
template <int D>
using Sums = float[panels<D>][8][4];

/// The number of the thread's warpgroup, in a way that shows the compiler that it is the same for
/// all lanes.
__device__ inline int group() {
  return __shfl_sync(0xffffffffU, static_cast<int>(threadIdx.x) / group_threads, 0);
}
/// The row, among its warpgroup's, of a thread's element r. (column_of is that of mma.)
__device__ inline int row_in_group(int r) {
  return 16 * (warp() % 4) + row_of(0, r);
}
template <class Body>
__device__ void for_each_sum(const Body& body) {
#pragma unroll
  for (int j = 0; j < 8; ++j)
#pragma unroll
    for (int r = 0; r < 4; ++r) body(j, r);
}

/// Returns 16-byte piece `piece` of row `row` of a tile of `rows` rows.
template <int rows>
__device__ Bf16* piece_of(Bf16* to, int row, int piece) {
  return to + piece / 8 * rows * panel_columns + ptx::piece_at(row, piece % 8);
}

/// Starts copying rows [first, first + rows) of a matrix, by `threads` threads; pads with zeros
/// beyond s and d. Unaligned rows are copied synchronously, element by element.
template <int rows, int D, int threads>
__device__ void load_panels(Bf16* to, Matrix<const Bf16> matrix, int first, const Problem& n) {
  constexpr int pieces = D / 8, together = threads / pieces;  // rows at a time, a multiple of 8
  const int row = static_cast<int>(threadIdx.x) / pieces;
  const int piece = static_cast<int>(threadIdx.x) % pieces;
  Bf16* const shared = piece_of<rows>(to, row, piece);
  const Bf16* from = matrix.row(first + row) + 8 * piece;
  if (n.vectors) {
#pragma unroll
    for (int i = 0; i < rows; i += together) {
      if (rows % together != 0 && row + i >= rows) break;
      const bool inside = first + row + i < n.s && 8 * piece < n.d;
      ptx::cp_async_16(shared + i * panel_columns, inside ? from : matrix.data, inside);
      from += static_cast<std::int64_t>(together) * matrix.stride;
    }
  } else {
#pragma unroll 1
    for (int i = 0; row + i < rows; i += together) {
      for (int c = 0; c < 8; ++c)
        shared[i * panel_columns + c] =
            first + row + i < n.s && 8 * piece + c < n.d ? from[c] : Bf16{0};
      from += static_cast<std::int64_t>(together) * matrix.stride;
    }
  }
}

/// Waits for this thread's copies, shows them to the tensor cores, and waits for the other threads.
/// All threads have then also finished with what they read before.
template <int pending = 0>
__device__ inline void wait_for_copies() {
  ptx::cp_async_wait<pending>();
  ptx::fence_for_tensor_cores();
  __syncthreads();
}

// -- left operands --------------------------------------------------------------------------------

/// A warpgroup's 64 rows, loaded once into registers.
template <int D, int rows>
struct InRegisters {
  std::uint32_t parts[D / 16][4];

  __device__ explicit InRegisters(Bf16* block, int first_row) {
    const int row = first_row + 16 * (warp() % 4) + lane() % 16;
#pragma unroll
    for (int k = 0; k < D / 16; ++k)
      ptx::ldmatrix_x4(parts[k], piece_of<rows>(block, row, 2 * k + lane() / 16));
  }
  template <bool adds>
  __device__ void multiply(WgmmaSums& sums, int k, std::uint64_t b) const {
    ptx::wgmma_registers<adds, false>(sums, parts[k], b);
  }
};

/// The same, read from shared memory by each product.
template <int D, int rows>
struct InSharedMemory {
  std::uint64_t panel[panels<D>];

  __device__ explicit InSharedMemory(Bf16* block, int first_row) {
#pragma unroll
    for (int p = 0; p < panels<D>; ++p)
      panel[p] = ptx::descriptor(block + (p * rows + first_row) * panel_columns);
  }
  template <bool adds>
  __device__ void multiply(WgmmaSums& sums, int k, std::uint64_t b) const {
    ptx::wgmma_shared<adds>(sums, ptx::after_columns(panel[k / 4], k % 4 * 16), b);
  }
};

/// Rounds sums for use as the left operand of the next product.
__device__ inline void as_left(const WgmmaSums& sums, std::uint32_t (&left)[tile / 16][4]) {
#pragma unroll
  for (int k = 0; k < tile / 16; ++k)
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const float* const pair = &sums[2 * k + i / 2][i % 2 * 2];
      left[k][i] = ptx::pack<Bf16>(pair[0], pair[1]);
    }
}

// -- products -------------------------------------------------------------------------------------

/// Starts sums (64, 64) = a (64, D) bᵀ, with b the rows of a tile, as a group of its own.
template <int D, class Left>
__device__ void start_transposed(WgmmaSums& sums, const Left& a, const Bf16* b) {
#pragma unroll
  for (int k = 0; k < D / 16; ++k) {
    const std::uint64_t right =
        ptx::after_columns(ptx::descriptor(b + k / 4 * tile * panel_columns), k % 4 * 16);
    if (k == 0)
      a.template multiply<false>(sums, k, right);
    else
      a.template multiply<true>(sums, k, right);
  }
  ptx::wgmma_commit();
}

/// Starts sums (64, D) += left (64, 64) b, with b the rows of a tile, as a group of its own.
template <int D>
__device__ void start(Sums<D>& sums, const std::uint32_t (&left)[tile / 16][4], const Bf16* b) {
#pragma unroll
  for (int p = 0; p < panels<D>; ++p) {
    const std::uint64_t right = ptx::descriptor(b + p * tile * panel_columns);
#pragma unroll
    for (int k = 0; k < tile / 16; ++k)
      ptx::wgmma_registers<true, true>(sums[p], left[k], ptx::after_rows(right, 16 * k));
  }
  ptx::wgmma_commit();
}

// -- registers to global memory -------------------------------------------------------------------

/// Stores a warpgroup's sums, times a factor per row and rounded, to rows [first, first + 64) of a
/// matrix. Each warp stages its 16 rows in those of a block's tile, from `first_row` on, which no
/// warp reads any more.
template <int D, int rows>
__device__ void store_group(const Sums<D>& sums, float low, float high, Bf16* block, int first_row,
                            Matrix<Bf16> matrix, int first, const Problem& n) {
#pragma unroll
  for (int p = 0; p < panels<D>; ++p)
    for_each_sum([&](int j, int r) {
      if (r % 2 != 0) return;
      const float factor = r == 0 ? low : high;
      Bf16* const to = piece_of<rows>(block, first_row + row_in_group(r), 8 * p + j);
      *reinterpret_cast<std::uint32_t*>(to + lane() % 4 * 2) =
          ptx::pack<Bf16>(sums[p][j][r] * factor, sums[p][j][r + 1] * factor);
    });
  __syncwarp();
#pragma unroll
  for (int i = lane(); i < 16 * D / 8; i += 32) {
    const int row = 16 * (warp() % 4) + i / (D / 8), piece = i % (D / 8);
    if (first + row >= n.s) continue;
    const Bf16* const from = piece_of<rows>(block, first_row + row, piece);
    Bf16* const to = matrix.row(first + row) + 8 * piece;
    if (n.vectors) {
      if (8 * piece < n.d) *reinterpret_cast<uint4*>(to) = *reinterpret_cast<const uint4*>(from);
    } else {
      for (int c = 0; c < 8; ++c)
        if (8 * piece + c < n.d) to[c] = from[c];
    }
  }
}

/// Calls body with the padded columns of a head, whether attention is causal, and the number of
/// warpgroups, as template arguments.
template <class Body>
void for_kernel(int d, bool causal, int groups, const Body& body) {
  const auto with_groups = [&]<int D, bool is_causal>() {
    if (groups == 3)
      body.template operator()<D, is_causal, 3>();
    else
      body.template operator()<D, is_causal, 2>();
  };
  const auto with_causal = [&]<int D>() {
    if (causal)
      with_groups.template operator()<D, true>();
    else
      with_groups.template operator()<D, false>();
  };
  if (d <= 64)
    with_causal.template operator()<64>();
  else
    with_causal.template operator()<128>();
}

}  // namespace lockstep::cuda::hopper
