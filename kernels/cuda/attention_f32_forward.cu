/// Causal attention's forward pass in f32: the idea of FlashAttention (Dao 2022) in plain CUDA.
///
/// For one head, softmax(q kᵀ / √d) v consists of two products, with an (s, s) matrix as the
/// intermediate result. At s = 1024 and d = 64 that matrix is 16 times as large as q, so it is
/// never stored in memory. A block takes one tile of queries, iterates over the keys and values
/// tile by tile, and keeps three running values per query:
///
///     m   the largest score so far        l   Σ e^(score - m) so far        y   Σ e^(score - m) v
///
/// With each tile of scores S, the maximum becomes m' = max(m, row maximum of S). Sums taken
/// relative to the old maximum are rescaled by e^(m - m'):
///
///     l ← e^(m - m') l + Σ e^(S - m')        y ← e^(m - m') y + e^(S - m') v
///
/// This is the online softmax (Milakov & Gimelshein 2018); element::merge does the same for two
/// parts of a row. At the end, y / l is the result and m + ln l is the row's log-sum-exp. The
/// backward pass needs the log-sum-exp, and so do ranks that merge their parts of a row.
///
/// Causality: query i attends to the keys up to i, so the loop ends at the diagonal and only its
/// last tile is masked. Blocks with the most tiles start first.
///
/// Per head: 2 s² d (1 + 64 / s) FLOPs. Bytes: q is read and y is written once; k and v are read s
/// / 128 times, mostly from the L2 cache. Tiles are 64 x 64, or 32 x 32 for d > 64, and take 65 KB
/// of shared memory at d = 64, 53 KB at 128. All FMA operands come from shared memory (8 reads for
/// 16 FMAs), which limits the kernel to about half of the peak FMA rate. The 16-bit kernels, which
/// are written for speed, use tensor cores.

#include "kernels/cuda/attention_f32_tile.cuh"
#include "kernels/cuda/attention_launch.cuh"

namespace lockstep::cuda {
namespace {

template <int D>
__global__ void __launch_bounds__(f32_threads)
    forward(Problem n, Strided<const float> q, Strided<const float> k, Strided<const float> v,
            Strided<float> y, float* lse) {
  constexpr int tile = f32_tile<D>, I = tile / side, J = D / side;
  constexpr int elements = tile * f32_pitch<D>;
  float* const queries = dynamic_shared<float>();
  float* const keys = queries + elements;
  float* const values = keys + elements;
  float* const exponentials = values + elements;

  const Place place =
      place_of(static_cast<int>(blockIdx.x), blocks_of(n.s, tile), n.matrices, true);
  const int first = place.tile * tile;
  load_tile<D>(queries, q.matrix(n, place.matrix), first, n);

  float maximum[I], sum[I] = {}, result[I][J] = {};
  for (int i = 0; i < I; ++i) maximum[i] = -infinity;
  for (int first_key = 0; first_key <= first; first_key += tile) {
    load_tile<D>(keys, k.matrix(n, place.matrix), first_key, n);
    load_tile<D>(values, v.matrix(n, place.matrix), first_key, n);
    __syncthreads();

    float scores[I][I] = {};
    multiply(scores, tile_of<D>(queries), tile_of<D>(keys).transposed(), n.d);
#pragma unroll
    for (int i = 0; i < I; ++i) {
      const int query = first + thread_y() + side * i;
      float highest = maximum[i];
#pragma unroll
      for (int j = 0; j < I; ++j) {
        const bool sees = first_key + thread_x() + side * j <= query;
        scores[i][j] = sees ? scores[i][j] * n.scale : -infinity;
        highest = fmaxf(highest, scores[i][j]);
      }
      // The maximum is finite from the first tile on, because every query attends to key 0.
      highest = row_max(highest);
      const float factor = element::exp(maximum[i] - highest);
      maximum[i] = highest;
      float part = 0.0F;
#pragma unroll
      for (int j = 0; j < I; ++j) {
        scores[i][j] = element::exp(scores[i][j] - highest);
        part += scores[i][j];
      }
      sum[i] = fmaf(sum[i], factor, part);
#pragma unroll
      for (int j = 0; j < J; ++j) result[i][j] *= factor;
    }
    share(scores, exponentials);
    __syncthreads();
    multiply(result, tile_of<tile>(exponentials), tile_of<D>(values), tile);
    __syncthreads();  // before the next tile overwrites this one
  }

  float inverse[I];
#pragma unroll
  for (int i = 0; i < I; ++i) {
    const float total = row_sum(sum[i]);
    inverse[i] = 1.0F / total;
    const int query = first + thread_y() + side * i;
    if (thread_x() == 0 && query < n.s)
      lse[static_cast<std::int64_t>(place.matrix) * n.s + query] = maximum[i] + logf(total);
  }
  store_rows(result, inverse, y.matrix(n, place.matrix), first, n);
}

/// Writes the probabilities (4 s² bytes per head) if the caller wants to keep them. To do so,
/// recomputes the scores, now that lse is known.
template <int D>
__global__ void __launch_bounds__(f32_threads)
    write_probabilities(Problem n, Strided<const float> q, Strided<const float> k, const float* lse,
                        float* probabilities) {
  constexpr int tile = f32_tile<D>, I = tile / side;
  float* const queries = dynamic_shared<float>();
  float* const keys = queries + tile * f32_pitch<D>;
  const int matrix = static_cast<int>(blockIdx.x) % n.matrices;
  const int first = static_cast<int>(blockIdx.x) / n.matrices * tile;
  const int first_key = static_cast<int>(blockIdx.y) * tile;
  load_tile<D>(queries, q.matrix(n, matrix), first, n);
  load_tile<D>(keys, k.matrix(n, matrix), first_key, n);
  __syncthreads();
  float scores[I][I] = {};
  multiply(scores, tile_of<D>(queries), tile_of<D>(keys).transposed(), n.d);
  const std::int64_t first_row = static_cast<std::int64_t>(matrix) * n.s;
#pragma unroll
  for (int i = 0; i < I; ++i)
#pragma unroll
    for (int j = 0; j < I; ++j) {
      const int query = first + thread_y() + side * i, key = first_key + thread_x() + side * j;
      if (query >= n.s || key >= n.s) continue;
      probabilities[(first_row + query) * n.s + key] =
          key > query ? 0.0F : probability_f32(scores[i][j], n.scale, lse[first_row + query]);
    }
}

}  // namespace

void attention_forward_f32(Queue queue, const Problem& n, View q, View k, View v, View y,
                           View lse) {
  for_head(n.d, [&]<int D>() {
    constexpr int tile = f32_tile<D>;
    constexpr int elements = tile * (3 * f32_pitch<D> + f32_pitch<tile>);
    const int blocks = blocks_of(n.s, tile) * n.matrices;
    launch({"attention_forward", queue, Grid{blocks}, dim3(f32_threads), elements * sizeof(float)},
           forward<D>, n, Strided<const float>{q}, Strided<const float>{k, n.per_group},
           Strided<const float>{v, n.per_group}, Strided<float>{y}, lse.f32());
  });
}

void attention_probabilities_f32(Queue queue, const Problem& n, View q, View k, View lse,
                                 View probabilities) {
  for_head(n.d, [&]<int D>() {
    constexpr int tile = f32_tile<D>;
    const Grid blocks{blocks_of(n.s, tile) * n.matrices, blocks_of(n.s, tile)};
    launch({"attention_forward (probabilities)", queue, blocks, dim3(f32_threads),
            2 * tile * f32_pitch<D> * sizeof(float)},
           write_probabilities<D>, n, Strided<const float>{q}, Strided<const float>{k, n.per_group},
           lse.f32(), probabilities.f32());
  });
}

}  // namespace lockstep::cuda
