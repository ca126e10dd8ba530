/// Causal attention's backward pass for bf16 and f16, on tensor cores.
///
/// The forward pass did not keep the (s, s) probabilities P, but only each row's log-sum-exp. The
/// backward pass recomputes P tile by tile, P = e^(scale q kᵀ - lse). With dots = Σ dy * y for each
/// row (attention_dots.cu):
///
///     dv = Pᵀ dy        dP = dy vᵀ        dS = P * (dP - dots)        dq = scale dS k
///                                                                     dk = scale dSᵀ q
///
/// dk and dv are sums over queries, and dq is a sum over keys. A single kernel with one block per
/// tile of keys could compute P and dP once for all three, in 5 products. But then many blocks
/// would add to the same dq with atomics, in arbitrary order, and no two runs would be bitwise
/// identical. Here one kernel computes dk and dv (4 products) and a second kernel computes dq (3
/// products). That is 7 products instead of 5, or 40 % more work, but each sum has one owner and
/// one order. In return, a pipeline's results are bitwise identical to those of one device, however
/// it splits the batch. The lessons' parity checks rely on this.
///
/// Both kernels have the structure of the forward kernel, with other operands. For dk and dv a warp
/// owns keys and computes *transposed* scores, k qᵀ: their rows are keys, so Pᵀ and dSᵀ are already
/// in registers as the left operand of the next product. For this P to be bitwise identical to the
/// forward kernel's P, mma must sum an element in the same way whichever operand is on the left.
/// NVIDIA does not guarantee this, but each product of two elements is exact and the summation
/// order depends only on k. The test of stored probabilities checks this on the GPU.
///
/// FLOPs per head: 7 s² d (1 + 32 / s), half of the 14 s² d without causality. Bytes: each block
/// reads its own rows once and the other operand's rows s / (2 block_rows) times, mostly from the
/// L2 cache; results are written once. The other operand is processed in tiles of 32 rows, because
/// scores and dP must both fit in registers.
///
///     d      kernel   rows of a block   shared memory   registers per thread (of 255)
///     64     dk, dv   128               55 KB           dk 64, dv 64, scores 32, dP 32
///     64     dq       128               55 KB           dq 64, q 32, scores 32, dP 32
///     128    dk, dv   64                69 KB           dk 64, dv 64, scores 16, dP 16
///     128    dq       64                69 KB           dq 64, q 32, dy 32, scores 16, dP 16
///
/// As in the forward kernel, 2 blocks fit on a multiprocessor, and no registers are spilled.

#include <type_traits>

#include "kernels/cuda/attention_launch.cuh"
#include "kernels/cuda/attention_tile.cuh"

namespace lockstep::cuda {
namespace {

/// Strips of 16 rows per warp.
template <int D>
constexpr int strips = D <= 64 ? 2 : 1;
template <int D>
constexpr int block_rows = warps* strips<D> * 16;
/// Rows of the other operand per tile.
constexpr int tile = 32;

/// A stage holds one tile's data: rows of two matrices and, for dk and dv, two floats per row.
template <class T, int D>
constexpr int stage_elements = 2 * tile*(pitch<D> + static_cast<int>(sizeof(float) / sizeof(T)));
template <class T, int D>
constexpr std::size_t shared_bytes = 2 *
                                     (block_rows<D> * pitch<D> + stage_elements<T, D>)*sizeof(T);

/// The inputs of both kernels. `probabilities` points to the probabilities that the forward pass
/// kept, or is null. If it is not null, `lse` is loaded but not used, so it need not hold
/// log-sum-exps.
template <class T>
struct Backward {
  Problem n;
  Strided<const T> dy, q, k, v;
  const float *lse, *dots, *probabilities;
};

/// Returns one probability stored by the forward pass, or 0 outside the matrix.
template <class T>
__device__ float kept(const Backward<T>& in, int matrix, int query, int key) {
  const Problem& n = in.n;
  if (query >= n.s || key >= n.s) return 0.0F;
  return in.probabilities[(static_cast<std::int64_t>(matrix) * n.s + query) * n.s + key];
}

/// Computes dk and dv for one tile of keys, by iterating over the tiles of queries, starting at the
/// diagonal.
template <class T, int D>
__global__ void __launch_bounds__(threads, 2)
    backward_keys(Backward<T> in, Strided<T> dk, Strided<T> dv) {
  constexpr int M = strips<D>, rows = block_rows<D>, elements = tile * pitch<D>;
  const Problem& n = in.n;
  T* const keys = dynamic_shared<T>();
  T* const values = keys + rows * pitch<D>;
  T* const stages = values + rows * pitch<D>;  // two, each with q, dy, lse and dots of one tile

  const Place place =
      place_of(static_cast<int>(blockIdx.x), blocks_of(n.s, rows), n.matrices, false);
  const int first = place.tile * rows, mine = first + warp() * 16 * M;
  const Matrix<const T> q_matrix = in.q.matrix(n, place.matrix);
  const Matrix<const T> dy_matrix = in.dy.matrix(n, place.matrix);
  const int first_row = place.matrix * n.s;
  T* const own_keys = keys + warp() * 16 * M * pitch<D>;
  T* const own_values = own_keys + rows * pitch<D>;
  const auto load = [&](int first_query, T* stage) {
    load_tile<tile, D>(stage, q_matrix, first_query, n);
    load_tile<tile, D>(stage + elements, dy_matrix, first_query, n);
    load_numbers<tile>(reinterpret_cast<float*>(stage + 2 * elements), in.lse + first_row,
                       in.dots + first_row, first_query, n);
    ptx::cp_async_commit();
  };

  load_tile<rows, D>(keys, in.k.matrix(n, place.matrix), first, n);
  load_tile<rows, D>(values, in.v.matrix(n, place.matrix), first, n);
  load(first, stages);

  const float scale_log2_e = n.scale * log2_e;
  const InShared<T, M, D> my_keys{own_keys}, my_values{own_values};
  Sums<M, D> dk_sums = {}, dv_sums = {};
  for (int first_query = first, odd = 0; first_query < n.s; first_query += tile, odd ^= 1) {
    // After this, the tile is visible to all threads, and all have finished with the previous tile,
    // whose buffer the next load overwrites.
    ptx::cp_async_wait<0>();
    __syncthreads();
    if (first_query + tile < n.s)
      load(first_query + tile, stages + (odd ^ 1) * stage_elements<T, D>);
    const int ahead = first_query - mine;
    if (ahead + tile <= 0) continue;  // none of these queries attends to the warp's keys
    const T* const queries = stages + odd * stage_elements<T, D>;
    const T* const dys = queries + elements;
    const float* const lse = reinterpret_cast<const float*>(dys + elements);
    const float* const dots = lse + tile;

    Sums<M, tile> p = {}, ds = {};
    multiply_transposed<T, M, tile, D>(p, my_keys, queries);
    if (in.probabilities != nullptr) {
      for_each<M, tile>([&](int m, int j, int r) {
        p[m][j][r] = kept(in, place.matrix, first_query + column_of(j, r), mine + row_of(m, r));
      });
    } else {
      if (ahead < 16 * M - 1)  // at the diagonal
        for_each<M, tile>([&](int m, int j, int r) {
          if (row_of(m, r) > ahead + column_of(j, r)) p[m][j][r] = -infinity;
        });
      for_each<M, tile>([&](int m, int j, int r) {
        p[m][j][r] = probability(p[m][j][r], scale_log2_e, lse[column_of(j, r)]);
      });
    }
    multiply<T, M, tile, D>(dv_sums, as_left<T, M, tile>(p), dys);
    multiply_transposed<T, M, tile, D>(ds, my_values, dys);
    for_each<M, tile>([&](int m, int j, int r) {
      ds[m][j][r] = p[m][j][r] * (ds[m][j][r] - dots[column_of(j, r)]);
    });
    multiply<T, M, tile, D>(dk_sums, as_left<T, M, tile>(ds), queries);
  }

  float scale[M][2], one[M][2];
  for (int m = 0; m < M; ++m)
    for (int half = 0; half < 2; ++half) scale[m][half] = n.scale, one[m][half] = 1.0F;
  store_rows<T, M, D>(dk_sums, scale, own_keys, dk.matrix(n, place.matrix), mine, n);
  store_rows<T, M, D>(dv_sums, one, own_values, dv.matrix(n, place.matrix), mine, n);
}

/// Storage for a warp's rows of dy: shared memory or registers (see the table above).
template <class T, int D>
using Dys = std::conditional_t<D <= 64, InShared<T, strips<D>, D>, Registers<T, strips<D>, D>>;

/// Computes dq for one tile of queries, by iterating over the tiles of keys up to the diagonal.
template <class T, int D>
__global__ void __launch_bounds__(threads, 2) backward_queries(Backward<T> in, Strided<T> dq) {
  constexpr int M = strips<D>, rows = block_rows<D>, elements = tile * pitch<D>;
  const Problem& n = in.n;
  T* const queries = dynamic_shared<T>();
  T* const dys = queries + rows * pitch<D>;
  T* const stages = dys + rows * pitch<D>;  // two, each with k and v

  const Place place =
      place_of(static_cast<int>(blockIdx.x), blocks_of(n.s, rows), n.matrices, true);
  const int first = place.tile * rows, mine = first + warp() * 16 * M;
  const Matrix<const T> k_matrix = in.k.matrix(n, place.matrix);
  const Matrix<const T> v_matrix = in.v.matrix(n, place.matrix);
  T* const own = queries + warp() * 16 * M * pitch<D>;
  const auto load = [&](int first_key, T* stage) {
    load_tile<tile, D>(stage, k_matrix, first_key, n);
    load_tile<tile, D>(stage + elements, v_matrix, first_key, n);
    ptx::cp_async_commit();
  };

  load_tile<rows, D>(queries, in.q.matrix(n, place.matrix), first, n);
  load_tile<rows, D>(dys, in.dy.matrix(n, place.matrix), first, n);
  ptx::cp_async_commit();
  load(0, stages);
  float lse[M][2] = {}, dots[M][2] = {};
#pragma unroll
  for (int m = 0; m < M; ++m)
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const int query = mine + row_of(m, 2 * half);
      if (query >= n.s) continue;
      const int row = place.matrix * n.s + query;
      lse[m][half] = in.lse[row];
      dots[m][half] = in.dots[row];
    }
  ptx::cp_async_wait<1>();
  __syncthreads();
  const Registers<T, M, D> my_queries{own};
  const Dys<T, D> my_dys{dys + warp() * 16 * M * pitch<D>};

  const float scale_log2_e = n.scale * log2_e;
  Sums<M, D> sums = {};
  const int end = min(first + rows, n.s);
  for (int first_key = 0, odd = 0; first_key < end; first_key += tile, odd ^= 1) {
    ptx::cp_async_wait<0>();
    __syncthreads();
    if (first_key + tile < end) load(first_key + tile, stages + (odd ^ 1) * 2 * elements);
    const int ahead = mine - first_key;
    if (ahead + 16 * M <= 0) continue;  // no query of this warp attends to these keys
    const T* const keys = stages + odd * 2 * elements;
    const T* const values = keys + elements;

    Sums<M, tile> p = {}, ds = {};
    multiply_transposed<T, M, tile, D>(p, my_queries, keys);
    multiply_transposed<T, M, tile, D>(ds, my_dys, values);
    if (in.probabilities != nullptr) {
      for_each<M, tile>([&](int m, int j, int r) {
        p[m][j][r] = kept(in, place.matrix, mine + row_of(m, r), first_key + column_of(j, r));
      });
    } else {
      if (ahead < tile - 1)  // at the diagonal
        for_each<M, tile>([&](int m, int j, int r) {
          if (column_of(j, r) > ahead + row_of(m, r)) p[m][j][r] = -infinity;
        });
      for_each<M, tile>([&](int m, int j, int r) {
        p[m][j][r] = probability(p[m][j][r], scale_log2_e, lse[m][r / 2]);
      });
    }
    for_each<M, tile>(
        [&](int m, int j, int r) { ds[m][j][r] = p[m][j][r] * (ds[m][j][r] - dots[m][r / 2]); });
    multiply<T, M, tile, D>(sums, as_left<T, M, tile>(ds), keys);
  }

  float scale[M][2];
  for (int m = 0; m < M; ++m)
    for (int half = 0; half < 2; ++half) scale[m][half] = n.scale;
  store_rows<T, M, D>(sums, scale, own, dq.matrix(n, place.matrix), mine, n);
}

}  // namespace

void attention_backward_narrow(Queue queue, const Problem& n, View dy, View q, View k, View v,
                               View lse, View probabilities, const float* dots, View dq, View dk,
                               View dv) {
  for_narrow_head(q.dtype, n.d, [&]<class T, int D>() {
    const Backward<T> in{n,
                         Strided<const T>{dy},
                         Strided<const T>{q},
                         Strided<const T>{k},
                         Strided<const T>{v},
                         probabilities ? dots : lse.f32(),
                         dots,
                         probabilities.f32()};
    const Grid blocks{blocks_of(n.s, block_rows<D>) * n.matrices};
    launch({"attention_backward (dk, dv)", queue, blocks, dim3(threads), shared_bytes<T, D>},
           backward_keys<T, D>, in, Strided<T>{dk}, Strided<T>{dv});
    launch({"attention_backward (dq)", queue, blocks, dim3(threads), shared_bytes<T, D>},
           backward_queries<T, D>, in, Strided<T>{dq});
  });
}

}  // namespace lockstep::cuda
