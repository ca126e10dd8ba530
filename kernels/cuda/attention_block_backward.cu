/// Attention to a part of the keys, backward. Per head: 14 · queries · keys · d FLOPs, because two
/// kernels recompute the scores (attention_f32_backward.cu says why), or less if a mask leaves
/// tiles of queries and keys without a visible pair.

#include "kernels/cuda/attention_block.cuh"

namespace lockstep::cuda {
namespace {

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

/// The inputs of both backward kernels. `lse` and `dots` have mask.rows elements per matrix, of
/// which the block's queries start at mask.first_query.
template <class T>
struct Backward {
  Problem n;
  RowsOf<const T> dy, q, k, v;
  const float *lse, *dots;
  Mask mask;
};

/// Computes P and dS for one pair of tiles; queries and keys are in shared memory.
template <class T, int D, int I>
__device__ void scores_backward(const Backward<T>& in, const Tiles<D>& at, int matrix,
                                int first_query, int first_key, float (&p)[I][I],
                                float (&ds)[I][I]) {
  const Problem& n = in.n;
  const std::int64_t first_row = std::int64_t{matrix} * in.mask.rows + in.mask.first_query;
  multiply(p, tile_of<D>(at.queries), tile_of<D>(at.keys).transposed(), n.d);
  multiply(ds, tile_of<D>(at.dys), tile_of<D>(at.values).transposed(), n.d);
#pragma unroll
  for (int i = 0; i < I; ++i) {
    const int query = first_query + thread_y() + side * i;
    const bool is_query = query < in.q.count;
    const float lse = is_query ? in.lse[first_row + query] : 0.0F;
    const float dot = is_query ? in.dots[first_row + query] : 0.0F;
    const Range seen = in.mask.seen(n, matrix, query);
#pragma unroll
    for (int j = 0; j < I; ++j) {
      const bool sees = seen.contains(first_key + thread_x() + side * j);
      p[i][j] = sees ? probability_f32(p[i][j], n.scale, lse) : 0.0F;
      ds[i][j] = p[i][j] * (ds[i][j] - dot) * n.scale;
    }
  }
}

/// Adds to dk and dv for one tile of keys, by iterating over the query heads of its group, and
/// within each over the tiles of queries that see any of the keys.
template <class T, int D>
__global__ void __launch_bounds__(f32_threads)
    block_backward_keys(Backward<T> in, RowsOf<T> dk, RowsOf<T> dv) {
  constexpr int tile = f32_tile<D>, I = tile / side, J = D / side;
  const Problem& n = in.n;
  const Tiles<D> at;
  const Place place =
      place_of(static_cast<int>(blockIdx.x), blocks_of(in.k.count, tile), n.groups(), false);
  const int first = place.tile * tile, first_matrix = place.matrix * n.per_group;
  load_rows<D>(at.keys, in.k, first, first_matrix, n);
  load_rows<D>(at.values, in.v, first, first_matrix, n);

  float dk_sums[I][J] = {}, dv_sums[I][J] = {};
  for (int matrix = first_matrix; matrix < first_matrix + n.per_group; ++matrix)
    for (int first_query = 0; first_query < in.q.count; first_query += tile) {
      const Range visible = in.mask.seen_by_tile(n, matrix, first_query, tile);
      if (visible.end <= first || visible.begin >= first + tile) continue;  // all threads alike
      load_rows<D>(at.queries, in.q, first_query, matrix, n);
      load_rows<D>(at.dys, in.dy, first_query, matrix, n);
      __syncthreads();
      float p[I][I] = {}, ds[I][I] = {};
      scores_backward(in, at, matrix, first_query, first, p, ds);
      share(p, at.scores);
      __syncthreads();
      multiply(dv_sums, tile_of<tile>(at.scores).transposed(), tile_of<D>(at.dys), tile);
      __syncthreads();
      share(ds, at.scores);
      __syncthreads();
      multiply(dk_sums, tile_of<tile>(at.scores).transposed(), tile_of<D>(at.queries), tile);
      __syncthreads();  // before the next tiles overwrite these
    }
  add_rows(dk_sums, dk, first, first_matrix, n);
  add_rows(dv_sums, dv, first, first_matrix, n);
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
  const Range visible = in.mask.seen_by_tile(n, place.matrix, first, tile);
  for (int first_key = visible.begin / tile * tile; first_key < visible.end; first_key += tile) {
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

}  // namespace

void attention_block_backward(Queue queue, const Problem& n, const AttentionBlock& block,
                              View visible, View dy, View q, View k, View v, View lse,
                              const float* dots, View dq, View dk, View dv) {
  for_type_and_head(q.dtype, n.d, [&]<class T, int D>() {
    const auto of_queries = [&]<class U>(const View& view) {
      return RowsOf<U>{view, block.first_query, block.queries};
    };
    const auto of_keys = [&]<class U>(const View& view) {
      return RowsOf<U>{view, block.first_key, block.keys, n.per_group};
    };
    const Backward<T> in{n,
                         of_queries.template operator()<const T>(dy),
                         of_queries.template operator()<const T>(q),
                         of_keys.template operator()<const T>(k),
                         of_keys.template operator()<const T>(v),
                         lse.f32(),
                         dots,
                         Mask{visible, block, q}};
    const auto blocks = [&](std::int64_t rows, int matrices) {
      return Grid{blocks_of(static_cast<int>(rows), f32_tile<D>) * matrices};
    };
    launch({"attention_block_backward (dk, dv)", queue, blocks(block.keys, n.groups()),
            dim3(f32_threads), Tiles<D>::bytes},
           block_backward_keys<T, D>, in, of_keys.template operator()<T>(dk),
           of_keys.template operator()<T>(dv));
    launch({"attention_block_backward (dq)", queue, blocks(block.queries, n.matrices),
            dim3(f32_threads), Tiles<D>::bytes},
           block_backward_queries<T, D>, in, of_queries.template operator()<T>(dq));
  });
}

}  // namespace lockstep::cuda
