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
/// would add to the same dq: with atomics in arbitrary order, so that no two runs would be bitwise
/// identical, or in a fixed order, waiting for one another, which was slower (README.md). Here one
/// kernel computes dk and dv (4 products) and a second kernel computes dq (3 products). That is 7
/// products instead of 5, or 40 % more work, but each sum has one owner and one order. In return, a
/// pipeline's results are bitwise identical to those of one device, however it splits the batch.
/// The lessons' parity checks rely on this.
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
/// As in the forward kernel, 2 blocks fit on a multiprocessor, and no registers are spilled (on
/// sm_100, a few for d = 64; README.md has the table).

#include <type_traits>

#include "kernels/cuda/attention_backward.cuh"

namespace lockstep::cuda {
namespace {

/// Computes dk and dv for one tile of keys, by iterating over the query heads of its group, and
/// within each over the tiles of queries, starting at the diagonal.
template <class T, int D>
__global__ void __launch_bounds__(threads, 2)
    backward_keys(Backward<T> in, Strided<T> dk, Strided<T> dv) {
  constexpr int M = strips<D>, rows = block_rows<D>;
  const Problem& n = in.n;
  T* const keys = dynamic_shared<T>();
  T* const values = keys + rows * pitch<D>;
  T* const stages = values + rows * pitch<D>;  // two

  const Place place =
      place_of(static_cast<int>(blockIdx.x), blocks_of(n.s, rows), n.groups(), false);
  const int first = place.tile * rows, mine = first + warp() * 16 * M;
  const int own = warp() * 16 * M * pitch<D>;  // the warp's rows of keys and values
  const int first_matrix = place.matrix * n.per_group;

  load_tile<rows, D>(keys, in.k.matrix(n, first_matrix), first, n);
  load_tile<rows, D>(values, in.v.matrix(n, first_matrix), first, n);
  const QueryRows<T> query_rows{in, first_matrix};
  Queries<T, D>{stages}.load(query_rows, first, n);

  const InShared<T, M, D> my_keys{keys + own}, my_values{values + own};
  Sums<M, D> dk_sums = {}, dv_sums = {};
  for (int head = 0, odd = 0; head < n.per_group; ++head)
    for (int first_query = first; first_query < n.s; first_query += tile, odd ^= 1) {
      // After this, the tile is visible to all threads, and all have finished with the previous
      // tile, whose buffer the next load overwrites.
      ptx::cp_async_wait<0>();
      __syncthreads();
      const bool last = first_query + tile >= n.s;  // of this query head
      if (!last || head + 1 < n.per_group)
        Queries<T, D>{stages + (odd ^ 1) * stage_elements<T, D>}.load(
            query_rows.of_head(last ? head + 1 : head, n), last ? first : first_query + tile, n);
      if (first_query + tile <= mine) continue;  // none of these queries attends to the warp's keys
      const Queries<T, D> queries{stages + odd * stage_elements<T, D>};

      Sums<M, tile> p = {}, ds = {};
      probabilities_of_keys<T, M, D>(p, in, first_matrix + head, my_keys, mine, queries,
                                     first_query);
      multiply<T, M, tile, D>(dv_sums, as_left<T, M, tile>(p), queries.dy);
      score_gradients_of_keys<T, M, D>(ds, p, my_values, queries);
      multiply<T, M, tile, D>(dk_sums, as_left<T, M, tile>(ds), queries.q);
    }
  store_keys<T, M, D>(dk_sums, dv_sums, dk.matrix(n, first_matrix), dv.matrix(n, first_matrix),
                      keys + own, values + own, mine, n);
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
    const Backward<T> in{n, dy, q, k, v, lse, probabilities, dots};
    const int tiles = blocks_of(n.s, block_rows<D>);
    launch({"attention_backward (dk, dv)", queue, Grid{tiles * n.groups()}, dim3(threads),
            shared_bytes<T, D>},
           backward_keys<T, D>, in, Strided<T>{dk, n.per_group}, Strided<T>{dv, n.per_group});
    launch({"attention_backward (dq)", queue, Grid{tiles * n.matrices}, dim3(threads),
            shared_bytes<T, D>},
           backward_queries<T, D>, in, Strided<T>{dq});
  });
}

}  // namespace lockstep::cuda
