/// Causal attention's backward pass in f32, in plain CUDA (Dao 2022, algorithm 4, in two kernels).
///
/// The forward pass did not keep the (s, s) probabilities P, but only each row's log-sum-exp. The
/// backward pass recomputes P tile by tile, P = e^(scale q kᵀ - lse). With dots = Σ dy * y for each
/// row (attention_dots.cu):
///
///     dv = Pᵀ dy        dP = dy vᵀ        dS = P * (dP - dots) scale        dq = dS k
///                                                                           dk = dSᵀ q
///
/// dk and dv are sums over queries, and dq is a sum over keys. One kernel computes dk and dv and
/// another computes dq, so every sum has one owner and one order; attention_backward.cu explains
/// why this is worth 7 products instead of 5.
///
/// Per head: 7 s² d (1 + 64 / s) FLOPs. Tiles are 64 x 64, or 32 x 32 for d > 64, and take 81 KB of
/// shared memory at d = 64, 69 KB at 128.

#include "kernels/cuda/attention_f32_tile.cuh"
#include "kernels/cuda/attention_launch.cuh"

namespace lockstep::cuda {
namespace {

/// The inputs of both kernels. `probabilities` points to the probabilities that the forward pass
/// kept, or is null.
struct Backward {
  Problem n;
  Strided<const float> dy, q, k, v;
  const float *lse, *dots, *probabilities;
};

/// Computes P and dS for one pair of tiles; queries and keys are in shared memory.
template <int D, int I>
__device__ void scores_backward(const Backward& in, const Tiles<D>& at, int matrix, int first_query,
                                int first_key, float (&p)[I][I], float (&ds)[I][I]) {
  const Problem& n = in.n;
  const std::int64_t first_row = static_cast<std::int64_t>(matrix) * n.s;
  multiply(p, tile_of<D>(at.queries), tile_of<D>(at.keys).transposed(), n.d);
  multiply(ds, tile_of<D>(at.dys), tile_of<D>(at.values).transposed(), n.d);
#pragma unroll
  for (int i = 0; i < I; ++i) {
    const int query = first_query + thread_y() + side * i;
    const std::int64_t row = first_row + query;
#pragma unroll
    for (int j = 0; j < I; ++j) {
      const int key = first_key + thread_x() + side * j;
      if (query >= n.s || key > query)
        p[i][j] = 0.0F;
      else if (in.probabilities != nullptr)
        p[i][j] = in.probabilities[row * n.s + key];
      else
        p[i][j] = probability_f32(p[i][j], n.scale, in.lse[row]);
      const float dot = query < n.s ? in.dots[row] : 0.0F;
      ds[i][j] = p[i][j] * (ds[i][j] - dot) * n.scale;
    }
  }
}

/// Computes dk and dv for one tile of keys, by iterating over the query heads of its group, and
/// within each over the tiles of queries, starting at the diagonal.
template <int D>
__global__ void __launch_bounds__(f32_threads)
    backward_keys(Backward in, Strided<float> dk, Strided<float> dv) {
  constexpr int tile = f32_tile<D>, I = tile / side, J = D / side;
  const Problem& n = in.n;
  const Tiles<D> at;
  const Place place =
      place_of(static_cast<int>(blockIdx.x), blocks_of(n.s, tile), n.groups(), false);
  const int first = place.tile * tile, first_matrix = place.matrix * n.per_group;
  load_tile<D>(at.keys, in.k.matrix(n, first_matrix), first, n);
  load_tile<D>(at.values, in.v.matrix(n, first_matrix), first, n);

  float dk_sums[I][J] = {}, dv_sums[I][J] = {};
  for (int matrix = first_matrix; matrix < first_matrix + n.per_group; ++matrix)
    for (int first_query = first; first_query < n.s; first_query += tile) {
      load_tile<D>(at.queries, in.q.matrix(n, matrix), first_query, n);
      load_tile<D>(at.dys, in.dy.matrix(n, matrix), first_query, n);
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
  float one[I];
  for (int i = 0; i < I; ++i) one[i] = 1.0F;
  store_rows(dk_sums, one, dk.matrix(n, first_matrix), first, n);
  store_rows(dv_sums, one, dv.matrix(n, first_matrix), first, n);
}

/// Computes dq for one tile of queries, by iterating over the tiles of keys up to the diagonal.
template <int D>
__global__ void __launch_bounds__(f32_threads) backward_queries(Backward in, Strided<float> dq) {
  constexpr int tile = f32_tile<D>, I = tile / side, J = D / side;
  const Problem& n = in.n;
  const Tiles<D> at;
  const Place place =
      place_of(static_cast<int>(blockIdx.x), blocks_of(n.s, tile), n.matrices, true);
  const int first = place.tile * tile;
  load_tile<D>(at.queries, in.q.matrix(n, place.matrix), first, n);
  load_tile<D>(at.dys, in.dy.matrix(n, place.matrix), first, n);

  float sums[I][J] = {};
  for (int first_key = 0; first_key <= first; first_key += tile) {
    load_tile<D>(at.keys, in.k.matrix(n, place.matrix), first_key, n);
    load_tile<D>(at.values, in.v.matrix(n, place.matrix), first_key, n);
    __syncthreads();
    float p[I][I] = {}, ds[I][I] = {};
    scores_backward(in, at, place.matrix, first, first_key, p, ds);
    share(ds, at.scores);
    __syncthreads();
    multiply(sums, tile_of<tile>(at.scores), tile_of<D>(at.keys), tile);
    __syncthreads();  // before the next tiles overwrite these
  }
  float one[I];
  for (int i = 0; i < I; ++i) one[i] = 1.0F;
  store_rows(sums, one, dq.matrix(n, place.matrix), first, n);
}

}  // namespace

void attention_backward_f32(Queue queue, const Problem& n, View dy, View q, View k, View v,
                            View lse, View probabilities, const float* dots, View dq, View dk,
                            View dv) {
  for_head(n.d, [&]<int D>() {
    const Backward in{n,
                      Strided<const float>{dy},
                      Strided<const float>{q},
                      Strided<const float>{k, n.per_group},
                      Strided<const float>{v, n.per_group},
                      lse.f32(),
                      dots,
                      probabilities.f32()};
    const int tiles = blocks_of(n.s, f32_tile<D>);
    launch({"attention_backward (dk, dv)", queue, Grid{tiles * n.groups()}, dim3(f32_threads),
            Tiles<D>::bytes},
           backward_keys<D>, in, Strided<float>{dk, n.per_group}, Strided<float>{dv, n.per_group});
    launch({"attention_backward (dq)", queue, Grid{tiles * n.matrices}, dim3(f32_threads),
            Tiles<D>::bytes},
           backward_queries<D>, in, Strided<float>{dq});
  });
}

}  // namespace lockstep::cuda
