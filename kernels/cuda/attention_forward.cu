/// Causal attention's forward pass for bf16 and f16, on tensor cores: FlashAttention-2 (Dao 2023).
///
/// Read attention_f32_forward.cu first; the algorithm is the same. A block takes 128 queries of one
/// head, 32 for each warp, and iterates over the keys tile by tile up to the diagonal. Tensor cores
/// change where the data is kept:
///
///   - A warp's scores (32 x 64) stay in the registers that mma wrote. A row is spread over four
///     lanes, so its maximum takes two shuffles. The lanes' sums are added only at the end: until
///     then each lane sums its own columns, rescaling as the maximum grows.
///   - The exponentials, rounded to 16 bits, already have the layout of the second product's left
///     operand (see ptx::mma_m16n8k16). They never go through shared memory.
///   - While one tile is being computed, cp.async loads the next one: keys and values are
///     double-buffered.
///   - e^x is computed as 2^(x log2 e). The scale 1 / √d is folded into the same multiply-add, and
///     the special function unit does the rest. The unit's relative error, 2^-22, is far below that
///     of rounding a probability to 16 bits.
///
/// Per head: 4 s² d FLOPs without causality, 2 s² d (1 + 64 / s) here, because blocks skip tiles
/// above the diagonal, and each warp skips the last tiles if none of its queries attends to them.
/// Bytes: q is read and y is written once; k and v are read s / 256 times, mostly from the L2
/// cache. If k and v stay in that cache, memory traffic is 8 s d bytes, which gives s / 4 FLOPs per
/// byte.
///
///     d       tile   shared memory   registers per thread (of 255)
///     64      64     54 KB           y 64, scores 64, q 32
///     128     32     68 KB           y 128, scores 32, q read from shared memory
///
/// Register use allows 2 blocks (8 warps) per multiprocessor without spilling: an occupancy of
/// 12.5 %. README.md explains why that is enough here, and what limits mma. Other values of d are
/// padded with zero columns to the next of 32, 64, 96 and 128.

#include "kernels/cuda/attention_launch.cuh"
#include "kernels/cuda/attention_tile.cuh"

namespace lockstep::cuda {
namespace {

constexpr int strips = 2;  ///< strips of 16 queries per warp
constexpr int block_rows = warps * strips * 16;

template <int D>
constexpr int tile_rows = D <= 64 ? 64 : 32;

template <int D>
constexpr std::size_t shared_elements = (block_rows + 4 * tile_rows<D>)*pitch<D>;

/// Storage for a warp's queries: registers or shared memory (see the table above).
template <class T, int D>
using Queries = std::conditional_t<D <= 64, Registers<T, strips, D>, InShared<T, strips, D>>;

/// A lane's softmax state for its rows: in strip m, rows lane / 4 and lane / 4 + 8.
struct Softmax {
  float maximum[strips][2];  ///< of the scores so far, before scaling
  float sum[strips][2];      ///< of e^(scale (score - maximum)) over the lane's own columns
};

/// These functions reduce a value over the four lanes that share a row.
__device__ float row_max(float x) {
  x = fmaxf(x, __shfl_xor_sync(0xffffffffU, x, 1));
  return fmaxf(x, __shfl_xor_sync(0xffffffffU, x, 2));
}
__device__ float row_sum(float x) {
  x += __shfl_xor_sync(0xffffffffU, x, 1);
  return x + __shfl_xor_sync(0xffffffffU, x, 2);
}

/// Sets the scores of keys that come after their query to -∞. `ahead` is first query - first key.
template <int N>
__device__ void mask(Sums<strips, N>& scores, int ahead) {
  for_each<strips, N>([&](int m, int j, int r) {
    if (column_of(j, r) > ahead + row_of(m, r)) scores[m][j][r] = -infinity;
  });
}

/// Performs one step of the online softmax: replaces scores by e^(scale (score - maximum)) and
/// rescales the running sums, including y, to the new maximum.
template <int N, int D>
__device__ void softmax_step(Sums<strips, N>& scores, Softmax& row, Sums<strips, D>& y,
                             float scale_log2_e) {
#pragma unroll
  for (int m = 0; m < strips; ++m)
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      float maximum = row.maximum[m][half];
#pragma unroll
      for (int j = 0; j < N / 8; ++j)
        maximum = fmaxf(maximum, fmaxf(scores[m][j][2 * half], scores[m][j][2 * half + 1]));
      // The maximum is finite from the first tile on, because every query attends to key 0.
      maximum = row_max(maximum);
      const float factor = ptx::exp2_approximate((row.maximum[m][half] - maximum) * scale_log2_e);
      row.maximum[m][half] = maximum;
      const float shift = maximum * scale_log2_e;
      float sum = 0.0F;
#pragma unroll
      for (int j = 0; j < N / 8; ++j)
#pragma unroll
        for (int r = 2 * half; r < 2 * half + 2; ++r) {
          scores[m][j][r] = ptx::exp2_approximate(fmaf(scores[m][j][r], scale_log2_e, -shift));
          sum += scores[m][j][r];
        }
      row.sum[m][half] = fmaf(row.sum[m][half], factor, sum);
#pragma unroll
      for (int j = 0; j < D / 8; ++j) {
        y[m][j][2 * half] *= factor;
        y[m][j][2 * half + 1] *= factor;
      }
    }
}

template <class T, int D>
__global__ void __launch_bounds__(threads, 2)
    forward(Problem n, Strided<const T> q, Strided<const T> k, Strided<const T> v, Strided<T> y,
            float* lse) {
  constexpr int tile = tile_rows<D>, elements = tile * pitch<D>;
  T* const queries = dynamic_shared<T>();
  T* const keys = queries + block_rows * pitch<D>;  // two tiles
  T* const values = keys + 2 * elements;            // two tiles

  const Place place =
      place_of(static_cast<int>(blockIdx.x), blocks_of(n.s, block_rows), n.matrices, true);
  const int first = place.tile * block_rows, mine = first + warp() * strips * 16;
  const Matrix<const T> k_matrix = k.matrix(n, place.matrix);
  const Matrix<const T> v_matrix = v.matrix(n, place.matrix);
  T* const own = queries + warp() * strips * 16 * pitch<D>;
  const float scale_log2_e = n.scale * log2_e;

  load_tile<block_rows, D>(queries, q.matrix(n, place.matrix), first, n);
  ptx::cp_async_commit();
  load_tile<tile, D>(keys, k_matrix, 0, n);
  load_tile<tile, D>(values, v_matrix, 0, n);
  ptx::cp_async_commit();
  ptx::cp_async_wait<1>();
  __syncthreads();
  const Queries<T, D> my_queries{own};

  Sums<strips, D> sums = {};
  Softmax row;
  for (int m = 0; m < strips; ++m)
    for (int half = 0; half < 2; ++half) {
      row.maximum[m][half] = -infinity;
      row.sum[m][half] = 0.0F;
    }

  const int tiles = blocks_of(min(first + block_rows, n.s), tile);
  for (int t = 0; t < tiles; ++t) {
    // After this, tile t is visible to all threads, and all have finished with tile t - 1, whose
    // buffer tile t + 1 overwrites.
    ptx::cp_async_wait<0>();
    __syncthreads();
    const int current = t % 2 * elements, next = elements - current;
    if (t + 1 < tiles) {
      load_tile<tile, D>(keys + next, k_matrix, (t + 1) * tile, n);
      load_tile<tile, D>(values + next, v_matrix, (t + 1) * tile, n);
      ptx::cp_async_commit();
    }
    const int ahead = mine - t * tile;
    if (ahead + strips * 16 <= 0) continue;  // no query of this warp attends to the tile

    Sums<strips, tile> scores = {};
    multiply_transposed<T, strips, tile, D>(scores, my_queries, keys + current);
    if (ahead < tile - 1) mask<tile>(scores, ahead);
    softmax_step<tile, D>(scores, row, sums, scale_log2_e);
    multiply<T, strips, tile, D>(sums, as_left<T, strips, tile>(scores), values + current);
  }

  float inverse[strips][2];
#pragma unroll
  for (int m = 0; m < strips; ++m)
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const float sum = row_sum(row.sum[m][half]);
      inverse[m][half] = 1.0F / sum;
      const int query = mine + row_of(m, 2 * half);
      if (lane() % 4 == 0 && query < n.s)
        lse[static_cast<std::int64_t>(place.matrix) * n.s + query] =
            fmaf(row.maximum[m][half], n.scale, logf(sum));
    }
  store_rows<T, strips, D>(sums, inverse, own, y.matrix(n, place.matrix), mine, n);
}

/// Writes the probabilities (4 s² bytes per head) if the caller wants to keep them. To do so,
/// recomputes the scores, now that lse is known. A block writes 128 rows of one tile's columns.
template <class T, int D>
__global__ void __launch_bounds__(threads, 2)
    write_probabilities(Problem n, Strided<const T> q, Strided<const T> k, const float* lse,
                        float* probabilities) {
  constexpr int tile = tile_rows<D>;
  T* const queries = dynamic_shared<T>();
  T* const keys = queries + block_rows * pitch<D>;
  const int matrix = static_cast<int>(blockIdx.x) % n.matrices;
  const int first = static_cast<int>(blockIdx.x) / n.matrices * block_rows;
  const int first_key = static_cast<int>(blockIdx.y) * tile;
  const int mine = first + warp() * strips * 16;

  load_tile<block_rows, D>(queries, q.matrix(n, matrix), first, n);
  load_tile<tile, D>(keys, k.matrix(n, matrix), first_key, n);
  ptx::cp_async_commit();
  ptx::cp_async_wait<0>();
  __syncthreads();
  Sums<strips, tile> scores = {};
  multiply_transposed<T, strips, tile, D>(
      scores, Queries<T, D>{queries + warp() * strips * 16 * pitch<D>}, keys);
  const std::int64_t first_row = static_cast<std::int64_t>(matrix) * n.s;
  for_each<strips, tile>([&](int m, int j, int r) {
    const int query = mine + row_of(m, r), key = first_key + column_of(j, r);
    if (query >= n.s || key >= n.s) return;
    const float p = probability(scores[m][j][r], n.scale * log2_e, lse[first_row + query]);
    probabilities[(first_row + query) * n.s + key] = key > query ? 0.0F : p;
  });
}

}  // namespace

void attention_forward_narrow(Queue queue, const Problem& n, View q, View k, View v, View y,
                              View lse) {
  for_narrow_head(q.dtype, n.d, [&]<class T, int D>() {
    const int blocks = blocks_of(n.s, block_rows) * n.matrices;
    launch(
        {"attention_forward", queue, Grid{blocks}, dim3(threads), shared_elements<D> * sizeof(T)},
        forward<T, D>, n, Strided<const T>{q}, Strided<const T>{k, n.per_group},
        Strided<const T>{v, n.per_group}, Strided<T>{y}, lse.f32());
  });
}

void attention_probabilities_narrow(Queue queue, const Problem& n, View q, View k, View lse,
                                    View probabilities) {
  for_narrow_head(q.dtype, n.d, [&]<class T, int D>() {
    constexpr int tile = tile_rows<D>;
    const Grid blocks{blocks_of(n.s, block_rows) * n.matrices, blocks_of(n.s, tile)};
    launch({"attention_forward (probabilities)", queue, blocks, dim3(threads),
            (block_rows + tile) * pitch<D> * sizeof(T)},
           write_probabilities<T, D>, n, Strided<const T>{q}, Strided<const T>{k, n.per_group},
           lse.f32(), probabilities.f32());
  });
}

}  // namespace lockstep::cuda
