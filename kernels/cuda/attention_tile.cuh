#pragma once

/// Tiles in shared memory and their products on tensor cores: the building blocks of
/// attention_forward.cu and attention_backward.cu.
///
/// A block is four warps. Each warp owns 16 M rows of the block's result (M is 1 or 2), keeps these
/// rows in registers throughout, and iterates over the other operand tile by tile. With M = 2, each
/// fragment of the other operand is loaded once from shared memory and used twice. This matters
/// because ldmatrix takes 4 cycles for 512 bytes, about as long as the two mma instructions that
/// use these bytes with M = 1.
///
/// A row of a tile is D elements plus 8 of padding: D / 8 + 1 is odd, so the 16-byte pieces of 8
/// consecutive rows, which ldmatrix reads together, fall in different banks.

#include "kernels/cuda/attention_problem.cuh"
#include "kernels/cuda/ptx.cuh"
#include "kernels/cuda/shared.cuh"
#include "kernels/element.h"

namespace lockstep::cuda {

inline constexpr int warps = 4;
inline constexpr int threads = 32 * warps;

/// Distance between rows of a tile, in elements.
template <int D>
inline constexpr int pitch = D + 8;

__device__ inline int lane() {
  return static_cast<int>(threadIdx.x) % 32;
}
__device__ inline int warp() {
  return static_cast<int>(threadIdx.x) / 32;
}

/// A warp's (16 M, N) sums: M x N / 8 results of mma. sums[m][j][r] is the lane's element r in
/// strip m of 16 rows, columns 8 j to 8 j + 7. Elements 0 and 1 are in one row, 2 and 3 in another.
template <int M, int N>
using Sums = float[M][N / 8][4];

/// Row and column of the lane's element r in strip m and column group j; see ptx::mma_m16n8k16.
__device__ inline int row_of(int m, int r) {
  return 16 * m + lane() / 4 + r / 2 * 8;
}
__device__ inline int column_of(int j, int r) {
  return 8 * j + lane() % 4 * 2 + r % 2;
}

/// Calls body(m, j, r) for each of a lane's sums.
template <int M, int N, class Body>
__device__ void for_each(const Body& body) {
#pragma unroll
  for (int m = 0; m < M; ++m)
#pragma unroll
    for (int j = 0; j < N / 8; ++j)
#pragma unroll
      for (int r = 0; r < 4; ++r) body(m, j, r);
}

// -- global to shared memory ----------------------------------------------------------------------

/// Starts copying rows [first, first + rows) of a matrix; pads with zeros beyond s and d. Unaligned
/// rows are copied synchronously, element by element, which gives a bitwise identical result but is
/// slower.
template <int rows, int D, class T>
__device__ void load_tile(T* tile, Matrix<const T> matrix, int first, const Problem& n) {
  constexpr unsigned pieces = D / 8, together = 1024 / (D <= 64 ? D : 128);  // rows at a time
  if (n.vectors) {
    const int row = static_cast<int>(threadIdx.x / pieces);
    const int column = static_cast<int>(threadIdx.x % pieces * 8);
    if (pieces * together < threads && row >= static_cast<int>(together)) return;
    const T* from = matrix.row(first + row) + column;
#pragma unroll
    for (int i = 0; i < rows; i += together) {
      const bool inside = first + row + i < n.s && column < n.d;
      ptx::cp_async_16(tile + (row + i) * pitch<D> + column, inside ? from : matrix.data, inside);
      from += static_cast<std::int64_t>(together) * matrix.stride;
    }
  } else {
#pragma unroll 1
    for (int i = static_cast<int>(threadIdx.x); i < rows * D; i += threads) {
      const int row = i / D, column = i % D;
      const bool inside = first + row < n.s && column < n.d;
      tile[row * pitch<D> + column] = inside ? matrix.row(first + row)[column] : T{0};
    }
  }
}

/// Starts copying two floats per row: `rows` values of a, then `rows` of b. Pads with zeros beyond
/// s.
template <int rows>
__device__ void load_numbers(float* tile, const float* a, const float* b, int first,
                             const Problem& n) {
  static_assert(2 * rows <= threads);
  const int at = static_cast<int>(threadIdx.x), row = first + at % rows;
  if (at >= 2 * rows) return;
  const float* const from = at < rows ? a : b;
  ptx::cp_async_4(tile + at, row < n.s ? from + row : from, row < n.s);
}

// -- left operands --------------------------------------------------------------------------------

/// The left operand of a product: (16 M, K) in registers, in mma's layout.
template <class T, int M, int K>
struct Registers {
  std::uint32_t parts[M][K / 16][4];

  Registers() = default;
  /// Loads a warp's 16 M rows of a tile.
  __device__ explicit Registers(const T* rows) {
    const T* const row = rows + lane() % 16 * pitch<K> + lane() / 16 * 8;
#pragma unroll
    for (int m = 0; m < M; ++m)
#pragma unroll
      for (int k = 0; k < K / 16; ++k)
        ptx::ldmatrix_x4(parts[m][k], row + 16 * m * pitch<K> + 16 * k);
  }

  __device__ void get(int m, int k, std::uint32_t (&part)[4]) const {
#pragma unroll
    for (int i = 0; i < 4; ++i) part[i] = parts[m][k][i];
  }
};

/// A left operand kept in shared memory and loaded at each use, to save registers.
template <class T, int M, int K>
struct InShared {
  const T* row;

  __device__ explicit InShared(const T* rows)
      : row(rows + lane() % 16 * pitch<K> + lane() / 16 * 8) {}

  __device__ void get(int m, int k, std::uint32_t (&part)[4]) const {
    ptx::ldmatrix_x4(part, row + 16 * m * pitch<K> + 16 * k);
  }
};

/// Rounds one product's sums to T, for use as the left operand of the next product. Needs no data
/// from other lanes.
template <class T, int M, int N>
__device__ Registers<T, M, N> as_left(const Sums<M, N>& sums) {
  Registers<T, M, N> result;
#pragma unroll
  for (int m = 0; m < M; ++m)
#pragma unroll
    for (int k = 0; k < N / 16; ++k)
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        const float* const pair = &sums[m][2 * k + i / 2][i % 2 * 2];
        result.parts[m][k][i] = ptx::pack<T>(pair[0], pair[1]);
      }
  return result;
}

// -- products -------------------------------------------------------------------------------------

/// Computes sums (16 M, N) += a (16 M, D) bᵀ, with b (N, D) the rows of a tile. A lane needs
/// consecutive elements of a column of bᵀ, i.e. of a row of b, so ldmatrix need not transpose. Each
/// load fetches four matrices: rows 0-7 and 8-15 of b (lane bit 4) by columns 0-7 and 8-15 (lane
/// bit 3).
template <class T, int M, int N, int D, class Left>
__device__ void multiply_transposed(Sums<M, N>& sums, const Left& a, const T* b) {
  const T* const row = b + (lane() / 16 * 8 + lane() % 8) * pitch<D> + lane() / 8 % 2 * 8;
#pragma unroll
  for (int k = 0; k < D / 16; ++k) {
    std::uint32_t left[M][4];
#pragma unroll
    for (int m = 0; m < M; ++m) a.get(m, k, left[m]);
#pragma unroll
    for (int n = 0; n < N / 16; ++n) {
      std::uint32_t right[4];
      ptx::ldmatrix_x4(right, row + 16 * n * pitch<D> + 16 * k);
#pragma unroll
      for (int m = 0; m < M; ++m) {
        ptx::mma_m16n8k16<T>(sums[m][2 * n], left[m], right[0], right[1]);
        ptx::mma_m16n8k16<T>(sums[m][2 * n + 1], left[m], right[2], right[3]);
      }
    }
  }
}

/// Computes sums (16 M, D) += a (16 M, K) b, with b (K, D) the rows of a tile. A column of b
/// crosses rows, so ldmatrix must transpose. The four matrices are rows 0-7 and 8-15 (lane bit 3)
/// by columns 0-7 and 8-15 (lane bit 4).
template <class T, int M, int K, int D>
__device__ void multiply(Sums<M, D>& sums, const Registers<T, M, K>& a, const T* b) {
  const T* const row = b + lane() % 16 * pitch<D> + lane() / 16 * 8;
#pragma unroll
  for (int k = 0; k < K / 16; ++k)
#pragma unroll
    for (int n = 0; n < D / 16; ++n) {
      std::uint32_t right[4];
      ptx::ldmatrix_x4_transposed(right, row + 16 * k * pitch<D> + 16 * n);
#pragma unroll
      for (int m = 0; m < M; ++m) {
        ptx::mma_m16n8k16<T>(sums[m][2 * n], a.parts[m][k], right[0], right[1]);
        ptx::mma_m16n8k16<T>(sums[m][2 * n + 1], a.parts[m][k], right[2], right[3]);
      }
    }
}

// -- probabilities --------------------------------------------------------------------------------

using element::log2_e;

/// Returns e^(scale score - lse), as 2^(score scale log2 e - lse log2 e): one multiply-add and one
/// special function instruction. All kernels share this function, so their results are bitwise
/// identical.
__device__ inline float probability(float score, float scale_log2_e, float lse) {
  return ptx::exp2_approximate(fmaf(score, scale_log2_e, -(lse * log2_e)));
}

// -- registers to global memory -------------------------------------------------------------------

/// Stores a warp's sums, times a factor per row and rounded, to rows [first, first + 16 M) of a
/// matrix. They are staged in `own`, the warp's 16 M rows of a tile that is no longer in use,
/// because a lane holds pairs (4 bytes) and stores should be 16 bytes wide.
template <class T, int M, int D>
__device__ void store_rows(const Sums<M, D>& sums, const float (&factor)[M][2], T* own,
                           Matrix<T> matrix, int first, const Problem& n) {
  __syncwarp();  // all lanes have finished reading `own`
  for_each<M, D>([&](int m, int j, int r) {
    if (r % 2 != 0) return;
    T* const to = own + row_of(m, r) * pitch<D> + column_of(j, r);
    const float times = factor[m][r / 2];
    *reinterpret_cast<std::uint32_t*>(to) =
        ptx::pack<T>(sums[m][j][r] * times, sums[m][j][r + 1] * times);
  });
  __syncwarp();
  if (n.vectors) {
    constexpr unsigned pieces = D / 8;
#pragma unroll
    for (unsigned i = threadIdx.x % 32; i < 16 * M * pieces; i += 32) {
      const int row = static_cast<int>(i / pieces), column = static_cast<int>(i % pieces * 8);
      if (first + row < n.s && column < n.d)
        *reinterpret_cast<uint4*>(matrix.row(first + row) + column) =
            *reinterpret_cast<const uint4*>(own + row * pitch<D> + column);
    }
  } else {
#pragma unroll 1
    for (int i = lane(); i < 16 * M * D; i += 32) {
      const int row = i / D, column = i % D;
      if (first + row < n.s && column < n.d)
        matrix.row(first + row)[column] = own[row * pitch<D> + column];
    }
  }
}

}  // namespace lockstep::cuda
