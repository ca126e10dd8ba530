/// Attention to a part of the keys (ring attention), in plain CUDA and for all types: the tiles and
/// the online softmax of attention_f32_forward.cu and attention_f32_backward.cu, without a mask.
/// Elements are widened to f32 as they enter shared memory. Unlike attention_forward.cu, these
/// kernels do not use tensor cores.
///
/// Per head and rectangle: 4 · queries · keys · d FLOPs forward, 14 backward, because two kernels
/// recompute the scores (attention_f32_backward.cu says why).

#include "kernels/cuda/attention_f32_tile.cuh"
#include "kernels/cuda/attention_launch.cuh"
#include "kernels/cuda/narrow.cuh"

namespace lockstep::cuda {
namespace {

/// Some rows of one head in every sequence of a (b, s, h) view.
template <class T>
struct RowsOf {
  T* data;               ///< first row of the first sequence
  std::int64_t between;  ///< elements from one sequence to the next
  int stride;            ///< elements from one row to the next
  int count;             ///< rows per sequence

  RowsOf(const View& view, std::int64_t first, std::int64_t count_)
      : data(static_cast<T*>(view.data) + first * view.row_stride),
        between(view.shape[1] * view.row_stride),
        stride(static_cast<int>(view.row_stride)),
        count(static_cast<int>(count_)) {}

  __device__ Matrix<T> matrix(const Problem& n, int index) const {
    return {data + index / n.heads * between + index % n.heads * n.d, stride};
  }
};

/// Loads rows [first, first + f32_tile), widened; pads with zeros beyond the rows and beyond d.
template <int D, class T>
__device__ void load_rows(float* tile, const RowsOf<const T>& rows, int first, int index,
                          const Problem& n) {
  const Matrix<const T> matrix = rows.matrix(n, index);
  for (int i = static_cast<int>(threadIdx.x); i < f32_tile<D> * D; i += f32_threads) {
    const int row = i / D, column = i % D;
    const bool inside = first + row < rows.count && column < n.d;
    tile[row * f32_pitch<D> + column] = inside ? widen(matrix.row(first + row)[column]) : 0.0F;
  }
}

/// Adds a tile's result to rows [first, ...), and rounds the sums once.
template <class T, int I, int J>
__device__ void add_rows(const float (&c)[I][J], const RowsOf<T>& rows, int first, int index,
                         const Problem& n) {
  const Matrix<T> matrix = rows.matrix(n, index);
#pragma unroll
  for (int i = 0; i < I; ++i)
#pragma unroll
    for (int j = 0; j < J; ++j) {
      const int row = first + thread_y() + side * i, column = thread_x() + side * j;
      if (row >= rows.count || column >= n.d) continue;
      T& element = matrix.row(row)[column];
      narrow(widen(element) + c[i][j], element);
    }
}

template <class T, int D>
__global__ void __launch_bounds__(f32_threads)
    block_forward(Problem n, RowsOf<const T> q, RowsOf<const T> k, RowsOf<const T> v, RowsOf<T> y,
                  float* lse) {
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
  for (int first_key = 0; first_key < k.count; first_key += tile) {
    load_rows<D>(keys, k, first_key, place.matrix, n);
    load_rows<D>(values, v, first_key, place.matrix, n);
    __syncthreads();

    float scores[I][I] = {};
    multiply(scores, tile_of<D>(queries), tile_of<D>(keys).transposed(), n.d);
#pragma unroll
    for (int i = 0; i < I; ++i) {
      float highest = maximum[i];
#pragma unroll
      for (int j = 0; j < I; ++j) {
        const bool is_key = first_key + thread_x() + side * j < k.count;
        scores[i][j] = is_key ? scores[i][j] * n.scale : -infinity;
        highest = fmaxf(highest, scores[i][j]);
      }
      // The maximum is finite from the first tile on, because every tile has a key.
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

  const Matrix<T> out = y.matrix(n, place.matrix);
#pragma unroll
  for (int i = 0; i < I; ++i) {
    const float total = row_sum(sum[i]);
    const int query = first + thread_y() + side * i;
    if (query >= q.count) continue;
    if (thread_x() == 0)
      lse[static_cast<std::int64_t>(place.matrix) * q.count + query] = maximum[i] + logf(total);
#pragma unroll
    for (int j = 0; j < J; ++j) {
      const int column = thread_x() + side * j;
      if (column < n.d) narrow(result[i][j] * (1.0F / total), out.row(query)[column]);
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

/// The inputs of both backward kernels. `lse` and `dots` have `rows` elements per matrix, of which
/// the block's queries start at `first`.
template <class T>
struct Backward {
  Problem n;
  RowsOf<const T> dy, q, k, v;
  const float *lse, *dots;
  int first, rows;
};

/// Computes P and dS for one pair of tiles; queries and keys are in shared memory.
template <class T, int D, int I>
__device__ void scores_backward(const Backward<T>& in, const Tiles<D>& at, int matrix,
                                int first_query, int first_key, float (&p)[I][I],
                                float (&ds)[I][I]) {
  const Problem& n = in.n;
  const std::int64_t first_row = static_cast<std::int64_t>(matrix) * in.rows + in.first;
  multiply(p, tile_of<D>(at.queries), tile_of<D>(at.keys).transposed(), n.d);
  multiply(ds, tile_of<D>(at.dys), tile_of<D>(at.values).transposed(), n.d);
#pragma unroll
  for (int i = 0; i < I; ++i) {
    const int query = first_query + thread_y() + side * i;
    const bool is_query = query < in.q.count;
    const float lse = is_query ? in.lse[first_row + query] : 0.0F;
    const float dot = is_query ? in.dots[first_row + query] : 0.0F;
#pragma unroll
    for (int j = 0; j < I; ++j) {
      const bool inside = is_query && first_key + thread_x() + side * j < in.k.count;
      p[i][j] = inside ? probability_f32(p[i][j], n.scale, lse) : 0.0F;
      ds[i][j] = p[i][j] * (ds[i][j] - dot) * n.scale;
    }
  }
}

/// Adds to dk and dv for one tile of keys, by iterating over the tiles of queries.
template <class T, int D>
__global__ void __launch_bounds__(f32_threads)
    block_backward_keys(Backward<T> in, RowsOf<T> dk, RowsOf<T> dv) {
  constexpr int tile = f32_tile<D>, I = tile / side, J = D / side;
  const Problem& n = in.n;
  const Tiles<D> at;
  const Place place =
      place_of(static_cast<int>(blockIdx.x), blocks_of(in.k.count, tile), n.matrices, false);
  const int first = place.tile * tile;
  load_rows<D>(at.keys, in.k, first, place.matrix, n);
  load_rows<D>(at.values, in.v, first, place.matrix, n);

  float dk_sums[I][J] = {}, dv_sums[I][J] = {};
  for (int first_query = 0; first_query < in.q.count; first_query += tile) {
    load_rows<D>(at.queries, in.q, first_query, place.matrix, n);
    load_rows<D>(at.dys, in.dy, first_query, place.matrix, n);
    __syncthreads();
    float p[I][I] = {}, ds[I][I] = {};
    scores_backward(in, at, place.matrix, first_query, first, p, ds);
    share(p, at.scores);
    __syncthreads();
    multiply(dv_sums, tile_of<tile>(at.scores).transposed(), tile_of<D>(at.dys), tile);
    __syncthreads();
    share(ds, at.scores);
    __syncthreads();
    multiply(dk_sums, tile_of<tile>(at.scores).transposed(), tile_of<D>(at.queries), tile);
    __syncthreads();  // before the next tiles overwrite these
  }
  add_rows(dk_sums, dk, first, place.matrix, n);
  add_rows(dv_sums, dv, first, place.matrix, n);
}

/// Adds to dq for one tile of queries, by iterating over the tiles of keys.
template <class T, int D>
__global__ void __launch_bounds__(f32_threads)
    block_backward_queries(Backward<T> in, RowsOf<T> dq) {
  constexpr int tile = f32_tile<D>, I = tile / side, J = D / side;
  const Problem& n = in.n;
  const Tiles<D> at;
  const Place place =
      place_of(static_cast<int>(blockIdx.x), blocks_of(in.q.count, tile), n.matrices, false);
  const int first = place.tile * tile;
  load_rows<D>(at.queries, in.q, first, place.matrix, n);
  load_rows<D>(at.dys, in.dy, first, place.matrix, n);

  float sums[I][J] = {};
  for (int first_key = 0; first_key < in.k.count; first_key += tile) {
    load_rows<D>(at.keys, in.k, first_key, place.matrix, n);
    load_rows<D>(at.values, in.v, first_key, place.matrix, n);
    __syncthreads();
    float p[I][I] = {}, ds[I][I] = {};
    scores_backward(in, at, place.matrix, first, first_key, p, ds);
    share(ds, at.scores);
    __syncthreads();
    multiply(sums, tile_of<tile>(at.scores), tile_of<D>(at.keys), tile);
    __syncthreads();  // before the next tiles overwrite these
  }
  add_rows(sums, dq, first, place.matrix, n);
}

/// Calls body.template operator()<T, D>() for the type and the padded columns of a head.
template <class Body>
void for_type_and_head(DType dtype, int d, const Body& body) {
  if (dtype == DType::f32)
    for_head(d, [&]<int D>() { body.template operator()<float, D>(); });
  else
    for_narrow_head(dtype, d, body);
}

}  // namespace

void attention_block_forward(Queue queue, const Problem& n, const AttentionBlock& block, View q,
                             View k, View v, View y, View lse) {
  for_type_and_head(q.dtype, n.d, [&]<class T, int D>() {
    constexpr int tile = f32_tile<D>;
    constexpr int elements = tile * (3 * f32_pitch<D> + f32_pitch<tile>);
    const int blocks = blocks_of(static_cast<int>(block.queries), tile) * n.matrices;
    launch({"attention_block_forward", queue, dim3(static_cast<unsigned>(blocks)),
            dim3(f32_threads), elements * sizeof(float)},
           block_forward<T, D>, n, RowsOf<const T>{q, block.first_query, block.queries},
           RowsOf<const T>{k, block.first_key, block.keys},
           RowsOf<const T>{v, block.first_key, block.keys}, RowsOf<T>{y, 0, block.queries},
           lse.f32());
  });
}

void attention_merge(Queue queue, const Problem& n, View y_part, View lse_part, std::int64_t first,
                     View y, View lse) {
  const std::int64_t count = y_part.shape[1];
  const std::int64_t blocks = groups_of(merge_warps, n.matrices * count);
  with_type_of(y.dtype, [&](auto* null) {
    using T = Pointee<decltype(null)>;
    launch({"attention_merge", queue, dim3(static_cast<unsigned>(blocks)), dim3(merge_warps * 32)},
           merge_rows<T>, n, RowsOf<const T>{y_part, 0, count}, lse_part.f32(),
           RowsOf<T>{y, first, count}, lse.f32(), static_cast<int>(first),
           static_cast<int>(y.shape[1]));
  });
}

void attention_block_backward(Queue queue, const Problem& n, const AttentionBlock& block, View dy,
                              View q, View k, View v, View lse, const float* dots, View dq, View dk,
                              View dv) {
  for_type_and_head(q.dtype, n.d, [&]<class T, int D>() {
    const auto of_queries = [&]<class U>(const View& view) {
      return RowsOf<U>{view, block.first_query, block.queries};
    };
    const auto of_keys = [&]<class U>(const View& view) {
      return RowsOf<U>{view, block.first_key, block.keys};
    };
    const Backward<T> in{n,
                         of_queries.template operator()<const T>(dy),
                         of_queries.template operator()<const T>(q),
                         of_keys.template operator()<const T>(k),
                         of_keys.template operator()<const T>(v),
                         lse.f32(),
                         dots,
                         static_cast<int>(block.first_query),
                         static_cast<int>(q.shape[1])};
    const auto blocks = [&](std::int64_t rows) {
      return dim3(
          static_cast<unsigned>(blocks_of(static_cast<int>(rows), f32_tile<D>) * n.matrices));
    };
    launch({"attention_block_backward (dk, dv)", queue, blocks(block.keys), dim3(f32_threads),
            Tiles<D>::bytes},
           block_backward_keys<T, D>, in, of_keys.template operator()<T>(dk),
           of_keys.template operator()<T>(dv));
    launch({"attention_block_backward (dq)", queue, blocks(block.queries), dim3(f32_threads),
            Tiles<D>::bytes},
           block_backward_queries<T, D>, in, of_queries.template operator()<T>(dq));
  });
}

}  // namespace lockstep::cuda
