/// Attention to a part of the keys, forward, and the merge of two parts. Per head: 4 · queries ·
/// keys · d FLOPs, or less if a mask leaves tiles of queries and keys without a visible pair.

#include "kernels/cuda/attention_block.cuh"

namespace lockstep::cuda {
namespace {

template <class T, int D>
__global__ void __launch_bounds__(f32_threads)
    block_forward(Problem n, RowsOf<const T> q, RowsOf<const T> k, RowsOf<const T> v, RowsOf<T> y,
                  float* lse, Mask mask) {
  constexpr int tile = f32_tile<D>, I = tile / side, J = D / side;
  constexpr int elements = tile * f32_pitch<D>;
  float* const queries = dynamic_shared<float>();
  float* const keys = queries + elements;
  float* const values = keys + elements;
  float* const exponentials = values + elements;

  const Place place =
      place_of(static_cast<int>(blockIdx.x), blocks_of(q.count, tile), n.matrices, false);
  const int first = place.tile * tile;
  load_rows<D>(queries, q, first, place.matrix, n);

  float maximum[I], sum[I] = {}, result[I][J] = {};
  for (int i = 0; i < I; ++i) maximum[i] = -infinity;
  const Range visible = mask.seen_by_tile(n, place.matrix, first, tile);
  for (int first_key = visible.begin / tile * tile; first_key < visible.end; first_key += tile) {
    load_rows<D>(keys, k, first_key, place.matrix, n);
    load_rows<D>(values, v, first_key, place.matrix, n);
    __syncthreads();

    float scores[I][I] = {};
    multiply(scores, tile_of<D>(queries), tile_of<D>(keys).transposed(), n.d);
#pragma unroll
    for (int i = 0; i < I; ++i) {
      float highest = maximum[i];
      const Range seen = mask.seen(n, place.matrix, first + thread_y() + side * i);
#pragma unroll
      for (int j = 0; j < I; ++j) {
        const bool sees = seen.contains(first_key + thread_x() + side * j);
        scores[i][j] = sees ? scores[i][j] * n.scale : -infinity;
        highest = fmaxf(highest, scores[i][j]);
      }
      highest = row_max(highest);
      // Until the query has seen a key, its maximum is -∞, and -∞ - -∞ would be NaN.
      const float shift = highest == -infinity ? 0.0F : highest;
      const float factor = element::exp(maximum[i] - shift);
      maximum[i] = highest;
      float part = 0.0F;
#pragma unroll
      for (int j = 0; j < I; ++j) {
        scores[i][j] = element::exp(scores[i][j] - shift);
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

  const Matrix<T> out = y.matrix(n, place.matrix);
#pragma unroll
  for (int i = 0; i < I; ++i) {
    const float total = row_sum(sum[i]);
    const float inverse = total == 0.0F ? 0.0F : 1.0F / total;  // 0 if the query sees no key
    const int query = first + thread_y() + side * i;
    if (query >= q.count) continue;
    if (thread_x() == 0)
      lse[static_cast<std::int64_t>(place.matrix) * q.count + query] = maximum[i] + logf(total);
#pragma unroll
    for (int j = 0; j < J; ++j) {
      const int column = thread_x() + side * j;
      if (column < n.d) narrow(result[i][j] * inverse, out.row(query)[column]);
    }
  }
}

/// Merges rows: one warp per row and head, whose lane 0 updates lse after all lanes have read it.
constexpr int merge_warps = 4;

template <class T>
__global__ void __launch_bounds__(merge_warps * 32)
    merge_rows(Problem n, RowsOf<const T> part, const float* lse_part, RowsOf<T> y, float* lse,
               int first, int rows) {
  const std::int64_t row =
      static_cast<std::int64_t>(blockIdx.x) * merge_warps + static_cast<int>(threadIdx.x) / 32;
  if (row >= static_cast<std::int64_t>(n.matrices) * part.count) return;  // the whole warp
  const int matrix = static_cast<int>(row / part.count), i = static_cast<int>(row % part.count);
  float& log_sum = lse[static_cast<std::int64_t>(matrix) * rows + first + i];
  const element::MergedPart merged = element::merge_log_sums(log_sum, lse_part[row]);
  __syncwarp();
  const int lane = static_cast<int>(threadIdx.x) % 32;
  if (lane == 0) log_sum = merged.log_sum;
  const T* const from = part.matrix(n, matrix).row(i);
  T* const to = y.matrix(n, matrix).row(i);
  for (int c = lane; c < n.d; c += 32)
    narrow(merged.first * widen(to[c]) + merged.second * widen(from[c]), to[c]);
}

}  // namespace

void attention_block_forward(Queue queue, const Problem& n, const AttentionBlock& block,
                             View visible, View q, View k, View v, View y, View lse) {
  for_type_and_head(q.dtype, n.d, [&]<class T, int D>() {
    constexpr int tile = f32_tile<D>;
    constexpr int elements = tile * (3 * f32_pitch<D> + f32_pitch<tile>);
    const int blocks = blocks_of(static_cast<int>(block.queries), tile) * n.matrices;
    launch({"attention_block_forward", queue, Grid{blocks}, dim3(f32_threads),
            elements * sizeof(float)},
           block_forward<T, D>, n, RowsOf<const T>{q, block.first_query, block.queries},
           RowsOf<const T>{k, block.first_key, block.keys, n.per_group},
           RowsOf<const T>{v, block.first_key, block.keys, n.per_group},
           RowsOf<T>{y, 0, block.queries}, lse.f32(), Mask{visible, block, q});
  });
}

void attention_merge(Queue queue, const Problem& n, View y_part, View lse_part, std::int64_t first,
                     View y, View lse) {
  const std::int64_t count = y_part.shape[1];
  const std::int64_t blocks = groups_of(merge_warps, n.matrices * count);
  with_type_of(y.dtype, [&](auto* null) {
    using T = Pointee<decltype(null)>;
    launch({"attention_merge", queue, Grid{blocks}, dim3(merge_warps * 32)}, merge_rows<T>, n,
           RowsOf<const T>{y_part, 0, count}, lse_part.f32(), RowsOf<T>{y, first, count}, lse.f32(),
           static_cast<int>(first), static_cast<int>(y.shape[1]));
  });
}

}  // namespace lockstep::cuda
