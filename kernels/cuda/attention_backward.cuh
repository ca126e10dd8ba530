#pragma once

/// The building blocks of attention's backward pass on tensor cores (attention_backward.cu): the
/// sizes of tiles, the inputs, and the step from a tile of queries to the probabilities and their
/// gradients for a warp's keys.

#include "kernels/cuda/attention_launch.cuh"
#include "kernels/cuda/attention_tile.cuh"

namespace lockstep::cuda {

/// Strips of 16 rows per warp.
template <int D>
inline constexpr int strips = D <= 64 ? 2 : 1;
template <int D>
inline constexpr int block_rows = warps* strips<D> * 16;
/// Rows of the other operand per tile.
inline constexpr int tile = 32;

/// A stage holds one tile's data: rows of two matrices and, for a tile of queries, two floats per
/// row.
template <class T, int D>
inline constexpr int stage_elements = 2 *
                                      tile*(pitch<D> + static_cast<int>(sizeof(float) / sizeof(T)));
/// The rows of a block in two matrices, and two stages, so that one loads while the other is used.
template <class T, int D>
inline constexpr std::size_t shared_bytes = 2 * (block_rows<D> * pitch<D> +
                                                 stage_elements<T, D>)*sizeof(T);

/// The inputs of both kernels. `probabilities` points to the probabilities that the forward pass
/// kept, or is null. If it is not null, `lse` is loaded but not used, so it need not hold
/// log-sum-exps.
template <class T>
struct Backward {
  Problem n;
  Strided<const T> dy, q, k, v;
  const float *lse, *dots, *probabilities;

  Backward(const Problem& problem, const View& dy_, const View& q_, const View& k_, const View& v_,
           const View& lse_, const View& probabilities_, const float* dots_)
      : n(problem),
        dy(dy_),
        q(q_),
        k(k_, problem.per_group),
        v(v_, problem.per_group),
        lse(probabilities_ ? dots_ : lse_.f32()),
        dots(dots_),
        probabilities(probabilities_.f32()) {}
};

/// Returns one probability stored by the forward pass, or 0 outside the matrix.
template <class T>
__device__ float kept(const Backward<T>& in, int matrix, int query, int key) {
  const Problem& n = in.n;
  if (query >= n.s || key >= n.s) return 0.0F;
  return in.probabilities[(static_cast<std::int64_t>(matrix) * n.s + query) * n.s + key];
}

/// The rows of one matrix over which dk and dv are summed.
template <class T>
struct QueryRows {
  Matrix<const T> q, dy;
  const float *lse, *dots;

  __device__ QueryRows(const Backward<T>& in, int matrix)
      : q(in.q.matrix(in.n, matrix)),
        dy(in.dy.matrix(in.n, matrix)),
        lse(in.lse + matrix * in.n.s),
        dots(in.dots + matrix * in.n.s) {}

  /// Returns the rows of a later query head of the same group.
  __device__ QueryRows of_head(int later, const Problem& n) const {
    QueryRows rows = *this;
    rows.q.data += later * n.d;
    rows.dy.data += later * n.d;
    rows.lse += later * n.s;
    rows.dots += later * n.s;
    return rows;
  }
};

/// One tile of queries in a stage: rows of q and of dy, and each row's log-sum-exp and dot.
template <class T, int D>
struct Queries {
  T *q, *dy;
  float *lse, *dots;

  __device__ explicit Queries(T* stage)
      : q(stage),
        dy(q + tile * pitch<D>),
        lse(reinterpret_cast<float*>(dy + tile * pitch<D>)),
        dots(lse + tile) {}

  /// Starts copying the tile at row `first`.
  __device__ void load(const QueryRows<T>& rows, int first, const Problem& n) {
    load_tile<tile, D>(q, rows.q, first, n);
    load_tile<tile, D>(dy, rows.dy, first, n);
    load_numbers<tile>(lse, rows.lse, rows.dots, first, n);
    ptx::cp_async_commit();
  }
};

/// Computes Pᵀ for the warp's keys, of which the first is `first_key`, and a tile of queries.
template <class T, int M, int D>
__device__ void probabilities_of_keys(Sums<M, tile>& p, const Backward<T>& in, int matrix,
                                      const InShared<T, M, D>& keys, int first_key,
                                      const Queries<T, D>& queries, int first_query) {
  const int ahead = first_query - first_key;
  multiply_transposed<T, M, tile, D>(p, keys, queries.q);
  if (in.probabilities != nullptr) {
    for_each<M, tile>([&](int m, int j, int r) {
      p[m][j][r] = kept(in, matrix, first_query + column_of(j, r), first_key + row_of(m, r));
    });
  } else {
    if (ahead < 16 * M - 1)  // at the diagonal
      for_each<M, tile>([&](int m, int j, int r) {
        if (row_of(m, r) > ahead + column_of(j, r)) p[m][j][r] = -infinity;
      });
    const float scale_log2_e = in.n.scale * log2_e;
    for_each<M, tile>([&](int m, int j, int r) {
      p[m][j][r] = probability(p[m][j][r], scale_log2_e, queries.lse[column_of(j, r)]);
    });
  }
}

/// Computes dSᵀ = Pᵀ * (v dyᵀ - dots) for the warp's values and a tile of queries.
template <class T, int M, int D>
__device__ void score_gradients_of_keys(Sums<M, tile>& ds, const Sums<M, tile>& p,
                                        const InShared<T, M, D>& values,
                                        const Queries<T, D>& queries) {
  multiply_transposed<T, M, tile, D>(ds, values, queries.dy);
  for_each<M, tile>([&](int m, int j, int r) {
    ds[m][j][r] = p[m][j][r] * (ds[m][j][r] - queries.dots[column_of(j, r)]);
  });
}

/// Stores the warp's sums for dk and dv, whose first key is `first`. `own_dk` and `own_dv` are the
/// warp's rows of tiles that no warp uses any more.
template <class T, int M, int D>
__device__ void store_keys(const Sums<M, D>& dk_sums, const Sums<M, D>& dv_sums, Matrix<T> dk,
                           Matrix<T> dv, T* own_dk, T* own_dv, int first, const Problem& n) {
  float scale[M][2], one[M][2];
  for (int m = 0; m < M; ++m)
    for (int half = 0; half < 2; ++half) scale[m][half] = n.scale, one[m][half] = 1.0F;
  store_rows<T, M, D>(dk_sums, scale, own_dk, dk, first, n);
  store_rows<T, M, D>(dv_sums, one, own_dv, dv, first, n);
}

}  // namespace lockstep::cuda
