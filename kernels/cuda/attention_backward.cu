/// Causal attention backward for bf16 and f16, on tensor cores.
///
/// Of the (s, s) probabilities P forward kept nothing but each row's log-sum-exp. They are made
/// again tile by tile, P = e^(scale q kᵀ - lse), and with dots = Σ dy * y of each row
/// (attention_dots.cu)
///
///     dv = Pᵀ dy        dP = dy vᵀ        dS = P * (dP - dots)        dq = scale dS k
///                                                                     dk = scale dSᵀ q
///
/// dk and dv sum over queries, dq over keys. One kernel with a block for each tile of keys could
/// make P and dP once for all three, in 5 products; but then many blocks add to the same dq, with
/// atomics, in whatever order they come, and no two runs agree to the last bit. Here a kernel for
/// dk and dv (4 products) is followed by one for dq (3 products): 7 for 5, 40 % more work, and
/// every sum has one owner and one order. That is what it costs that a pipeline, however it cuts
/// the batch and orders the pieces, gives the bits of one device, which is how lessons prove
/// themselves.
///
/// Both are forward's kernel with other operands. In dk and dv a warp owns keys, and makes
/// *transposed* scores, k qᵀ: their rows are keys, so that Pᵀ and dSᵀ lie in registers as the left
/// operand that the next product wants. An element of a product is the same sum whichever operand
/// is the left one (each product of two is exact, and their order in the sum goes along k), so both
/// kernels have the same P.
///
/// FLOPs for one head: 7 s² d, half of the 14 s² d without causality, plus half a tile at the
/// diagonal. Bytes: the owned side once, the other side s / (2 rows owned) times, from the
/// second-level cache; the results once.
///
///     d      kernel   rows owned   tile   shared memory   registers a thread
///     64     dk, dv   128          64     75 KB           dk 64, dv 64, scores and dP 64
///     64     dq       128          64     74 KB           dq 64, q and dy 64, scores and dP 64
///     128    dk, dv   64           32     70 KB           dk 64, dv 64, scores and dP 32
///     128    dq       64           32     70 KB           dq 64, q and dy 64, scores and dP 32
///
/// A tile is worked off in pieces of 32 rows, because scores and dP are in registers together.

#include <type_traits>

#include "kernels/cuda/attention_launch.cuh"
#include "kernels/cuda/attention_tile.cuh"

namespace lockstep::cuda {
namespace {

/// Strips of 16 rows that a warp owns.
template <int D>
constexpr int strips = D <= 64 ? 2 : 1;
template <int D>
constexpr int block_rows = warps* strips<D> * 16;
/// Rows of the other side that come at once, and those that are worked on at once.
template <int D>
constexpr int tile_rows = D <= 64 ? 64 : 32;
constexpr int piece = 32;

/// The inputs of both kernels. `probabilities`, if not null, are those that forward kept.
template <class T>
struct Backward {
  Problem n;
  Strided<const T> dy, q, k, v;
  const float *lse, *dots, *probabilities;
};

/// One kept probability; there are none outside the matrix.
__device__ float kept(const float* probabilities, const Problem& n, int matrix, int query,
                      int key) {
  const bool exists = query < n.s && key < n.s;
  return exists ? probabilities[(static_cast<std::int64_t>(matrix) * n.s + query) * n.s + key]
                : 0.0F;
}

/// dk and dv of a tile of keys, over the tiles of queries from the diagonal on.
template <class T, int D>
__global__ void __launch_bounds__(threads, 2)
    backward_keys(Backward<T> in, Strided<T> dk, Strided<T> dv) {
  constexpr int M = strips<D>, rows = block_rows<D>, tile = tile_rows<D>;
  constexpr int elements = tile * pitch<D>;
  const Problem& n = in.n;
  T* const keys = dynamic_shared<T>();
  T* const values = keys + rows * pitch<D>;
  T* const queries = values + rows * pitch<D>;  // two tiles, and so on
  T* const dys = queries + 2 * elements;
  float* const lses = reinterpret_cast<float*>(dys + 2 * elements);
  float* const dots = lses + 2 * tile;

  const Place place =
      place_of(static_cast<int>(blockIdx.x), blocks_of(n.s, rows), n.matrices, false);
  const int first = place.tile * rows, mine = first + warp() * 16 * M;
  const T* const q_matrix = in.q.matrix(n, place.matrix);
  const T* const dy_matrix = in.dy.matrix(n, place.matrix);
  const std::int64_t numbers = static_cast<std::int64_t>(place.matrix) * n.s;
  T* const own_keys = keys + warp() * 16 * M * pitch<D>;
  T* const own_values = values + warp() * 16 * M * pitch<D>;
  const auto load = [&](int t) {
    const int at = t % 2;
    load_tile<tile, D>(queries + at * elements, q_matrix, in.q.stride, t * tile, n);
    load_tile<tile, D>(dys + at * elements, dy_matrix, in.dy.stride, t * tile, n);
    if (in.probabilities == nullptr)
      load_numbers<tile>(lses + at * tile, in.lse + numbers, t * tile, n);
    load_numbers<tile>(dots + at * tile, in.dots + numbers, t * tile, n);
    ptx::cp_async_commit();
  };

  const int tiles = blocks_of(n.s, tile);
  load_tile<rows, D>(keys, in.k.matrix(n, place.matrix), in.k.stride, first, n);
  load_tile<rows, D>(values, in.v.matrix(n, place.matrix), in.v.stride, first, n);
  load(first / tile);

  const InShared<T, M, D> my_keys{own_keys}, my_values{own_values};
  Sums<M, D> dk_sums = {}, dv_sums = {};
  for (int t = first / tile; t < tiles; ++t) {
    ptx::cp_async_wait<0>();
    __syncthreads();
    if (t + 1 < tiles) load(t + 1);
#pragma unroll 1
    for (int start = 0; start < tile; start += piece) {
      const int first_query = t * tile + start;
      if (first_query + piece <= mine) continue;  // none of these queries sees the warp's keys
      const int at = t % 2 * tile + start;

      Sums<M, piece> p = {}, ds = {};
      multiply_transposed<T, M, piece, D>(p, my_keys, queries + at * pitch<D>);
      multiply_transposed<T, M, piece, D>(ds, my_values, dys + at * pitch<D>);
#pragma unroll
      for (int j = 0; j < piece / 8; ++j)
#pragma unroll
        for (int r = 0; r < 4; ++r) {
          const int column = 8 * j + column_of(r), query = first_query + column;
#pragma unroll
          for (int m = 0; m < M; ++m) {
            const int key = mine + 16 * m + row_of(r);
            float value;
            if (in.probabilities != nullptr)
              value = kept(in.probabilities, n, place.matrix, query, key);
            else
              value = probability(p[m][j][r], n.scale * log2_e, lses[at + column]);
            p[m][j][r] = key > query ? 0.0F : value;
            ds[m][j][r] = p[m][j][r] * (ds[m][j][r] - dots[at + column]);
          }
        }
      multiply<T, M, piece, D>(dv_sums, rounded<T, M, piece>(p), dys + at * pitch<D>);
      multiply<T, M, piece, D>(dk_sums, rounded<T, M, piece>(ds), queries + at * pitch<D>);
    }
  }

  float scale[M][2], one[M][2];
  for (int m = 0; m < M; ++m)
    for (int half = 0; half < 2; ++half) scale[m][half] = n.scale, one[m][half] = 1.0F;
  store_rows<T, M, D>(dk_sums, scale, own_keys, dk.matrix(n, place.matrix), dk.stride, mine, n);
  store_rows<T, M, D>(dv_sums, one, own_values, dv.matrix(n, place.matrix), dv.stride, mine, n);
}

/// dq of a tile of queries, over the tiles of keys up to the diagonal.
template <class T, int D>
__global__ void __launch_bounds__(threads, 2) backward_queries(Backward<T> in, Strided<T> dq) {
  constexpr int M = strips<D>, rows = block_rows<D>, tile = tile_rows<D>;
  constexpr int elements = tile * pitch<D>;
  const Problem& n = in.n;
  T* const queries = dynamic_shared<T>();
  T* const dys = queries + rows * pitch<D>;
  T* const keys = dys + rows * pitch<D>;  // two tiles
  T* const values = keys + 2 * elements;  // two tiles

  const Place place =
      place_of(static_cast<int>(blockIdx.x), blocks_of(n.s, rows), n.matrices, true);
  const int first = place.tile * rows, mine = first + warp() * 16 * M;
  const T* const k_matrix = in.k.matrix(n, place.matrix);
  const T* const v_matrix = in.v.matrix(n, place.matrix);
  const std::int64_t numbers = static_cast<std::int64_t>(place.matrix) * n.s;
  T* const own = queries + warp() * 16 * M * pitch<D>;
  const auto load = [&](int t) {
    load_tile<tile, D>(keys + t % 2 * elements, k_matrix, in.k.stride, t * tile, n);
    load_tile<tile, D>(values + t % 2 * elements, v_matrix, in.v.stride, t * tile, n);
    ptx::cp_async_commit();
  };

  load_tile<rows, D>(queries, in.q.matrix(n, place.matrix), in.q.stride, first, n);
  load_tile<rows, D>(dys, in.dy.matrix(n, place.matrix), in.dy.stride, first, n);
  ptx::cp_async_commit();
  load(0);
  float lse[M][2] = {}, dots[M][2] = {};
#pragma unroll
  for (int m = 0; m < M; ++m)
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const int query = mine + 16 * m + row_of(2 * half);
      if (query >= n.s) continue;
      if (in.probabilities == nullptr) lse[m][half] = in.lse[numbers + query];
      dots[m][half] = in.dots[numbers + query];
    }
  ptx::cp_async_wait<1>();
  __syncthreads();
  const Registers<T, M, D> my_queries{own}, my_dys{dys + warp() * 16 * M * pitch<D>};

  Sums<M, D> sums = {};
  const int tiles = blocks_of(min(first + rows, n.s), tile);
  for (int t = 0; t < tiles; ++t) {
    ptx::cp_async_wait<0>();
    __syncthreads();
    if (t + 1 < tiles) load(t + 1);
#pragma unroll 1
    for (int start = 0; start < tile; start += piece) {
      const int first_key = t * tile + start;
      if (first_key >= mine + 16 * M) continue;  // no query of this warp sees these keys
      const int at = (t % 2 * tile + start) * pitch<D>;

      Sums<M, piece> p = {}, ds = {};
      multiply_transposed<T, M, piece, D>(p, my_queries, keys + at);
      multiply_transposed<T, M, piece, D>(ds, my_dys, values + at);
#pragma unroll
      for (int m = 0; m < M; ++m)
#pragma unroll
        for (int j = 0; j < piece / 8; ++j)
#pragma unroll
          for (int r = 0; r < 4; ++r) {
            const int query = mine + 16 * m + row_of(r), key = first_key + 8 * j + column_of(r);
            float value;
            if (in.probabilities != nullptr)
              value = kept(in.probabilities, n, place.matrix, query, key);
            else
              value = probability(p[m][j][r], n.scale * log2_e, lse[m][r / 2]);
            ds[m][j][r] = (key > query ? 0.0F : value) * (ds[m][j][r] - dots[m][r / 2]);
          }
      multiply<T, M, piece, D>(sums, rounded<T, M, piece>(ds), keys + at);
    }
  }

  float scale[M][2];
  for (int m = 0; m < M; ++m)
    for (int half = 0; half < 2; ++half) scale[m][half] = n.scale;
  store_rows<T, M, D>(sums, scale, own, dq.matrix(n, place.matrix), dq.stride, mine, n);
}

template <int D>
constexpr std::size_t shared_elements = 2 * (block_rows<D> + 2 * tile_rows<D>)*pitch<D>;

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
                         lse.f32(),
                         dots,
                         probabilities.f32()};
    const dim3 blocks(static_cast<unsigned>(blocks_of(n.s, block_rows<D>) * n.matrices));
    const std::size_t shared = shared_elements<D> * sizeof(T);
    launch({"attention_backward (dk, dv)", queue, blocks, dim3(threads),
            shared + 4 * tile_rows<D> * sizeof(float)},
           backward_keys<T, D>, in, Strided<T>{dk}, Strided<T>{dv});
    launch({"attention_backward (dq)", queue, blocks, dim3(threads), shared},
           backward_queries<T, D>, in, Strided<T>{dq});
  });
}

}  // namespace lockstep::cuda
