/// Attention's backward pass for bf16 on Hopper: 7 products in two kernels, one for dk and dv and
/// one for dq, for the reasons in kernels/cuda/attention_backward.cu, whose formulas these are.
///
/// Products overlap with the threads' own work within a tile: dP is summed while P is computed from
/// the scores, and dv while dS is computed from P and dP. Across tiles, the block's other
/// warpgroups fill the tensor cores.

#include "tests/gpu/variants/attention_hopper.cuh"
#include "tests/gpu/variants/attention_hopper.h"

namespace lockstep::cuda::hopper {
namespace {

/// Warpgroups of a block of the kernel for dk and dv. With 3, a thread can have only 168 registers,
/// and ptxas serializes the products; the kernel for dq has enough for heads of 64 columns.
constexpr int key_groups = 2;
template <int D, int groups>
constexpr int query_groups = D == 64 ? groups : 2;

/// Storage for the two left operands that a warpgroup keeps.
template <int D, int groups>
using Kept = std::conditional_t<D == 64 && groups == 2, InRegisters<D, groups * group_rows>,
                                InSharedMemory<D, groups * group_rows>>;

/// A stage: a tile of each of two matrices and, for queries, two floats per row.
template <int D>
constexpr int stage_elements = 2 * tile* D + 512;  // a multiple of 1,024 bytes
template <int D, int groups>
constexpr std::size_t shared_bytes = 2 * (groups * group_rows * D + stage_elements<D>)*sizeof(Bf16);

struct Inputs {
  Problem n;
  Strided<const Bf16> dy, q, k, v;
  const float *lse, *dots;
};

/// Turns scores into probabilities: `lse_of(j, r)` is the log-sum-exp of a sum's query. Scores of
/// keys that a query does not attend to count as -∞: those for which `masked(j, r)`, if any.
template <class Masked, class Lse>
__device__ void probabilities(WgmmaSums& p, bool any_masked, float scale, const Masked& masked,
                              const Lse& lse_of) {
  if (any_masked)
    for_each_sum([&](int j, int r) {
      if (masked(j, r)) p[j][r] = -infinity;
    });
  for_each_sum([&](int j, int r) { p[j][r] = probability(p[j][r], scale * log2_e, lse_of(j, r)); });
}

/// Computes dk and dv of a block's keys, by iterating over the query heads of its group and within
/// each over the tiles of queries, if causal from the diagonal on.
template <int D, bool causal>
__global__ void __launch_bounds__(key_groups* group_threads, 1)
    backward_keys(Inputs in, Strided<Bf16> dk, Strided<Bf16> dv) {
  constexpr int groups = key_groups;
  constexpr int threads = groups * group_threads, block_rows = groups * group_rows;
  const Problem& n = in.n;
  auto* const keys = dynamic_shared<Bf16>();
  Bf16* const values = keys + block_rows * D;
  Bf16* const stages = values + block_rows * D;  // two: q, dy, lse and dots

  const Place place =
      place_of(static_cast<int>(blockIdx.x), blocks_of(n.s, block_rows), n.groups(), false);
  const int first = place.tile * block_rows, own = group() * group_rows, mine = first + own;
  const int first_matrix = place.matrix * n.per_group;
  const int first_query = causal ? first : 0;
  const Matrix<const Bf16> q = in.q.matrix(n, first_matrix), dy = in.dy.matrix(n, first_matrix);
  const auto load = [&](int head, int query, int odd) {
    Bf16* const to = stages + odd * stage_elements<D>;
    const int before = (first_matrix + head) * n.s;
    load_panels<tile, D, threads>(to, {q.data + head * n.d, q.stride}, query, n);
    load_panels<tile, D, threads>(to + tile * D, {dy.data + head * n.d, dy.stride}, query, n);
    load_numbers<tile>(reinterpret_cast<float*>(to + 2 * tile * D), in.lse + before,
                       in.dots + before, query, n);
    ptx::cp_async_commit();
  };
  load_panels<block_rows, D, threads>(keys, in.k.matrix(n, first_matrix), first, n);
  load_panels<block_rows, D, threads>(values, in.v.matrix(n, first_matrix), first, n);
  load(0, first_query, 0);
  wait_for_copies();
  const Kept<D, groups> my_keys{keys, own}, my_values{values, own};

  Sums<D> dk_sums = {}, dv_sums = {};
  int head = 0, query = first_query, odd = 0;
  while (head < n.per_group) {
    wait_for_copies();
    const bool last = query + tile >= n.s;  // of this head
    const int next_head = last ? head + 1 : head, next_query = last ? first_query : query + tile;
    if (next_head < n.per_group) load(next_head, next_query, odd ^ 1);
    const int ahead = query - mine;
    const Bf16* const queries = stages + odd * stage_elements<D>;
    head = next_head, query = next_query, odd ^= 1;
    if (causal && ahead + tile <= 0) continue;  // none of these queries attends to these keys
    const Bf16* const dys = queries + tile * D;
    const auto* const lse = reinterpret_cast<const float*>(dys + tile * D);
    const float* const dots = lse + tile;

    WgmmaSums p, ds;  // transposed: rows are keys
    std::uint32_t left_p[tile / 16][4], left_ds[tile / 16][4];
    ptx::wgmma_fence();
    start_transposed<D>(p, my_keys, queries);
    start_transposed<D>(ds, my_values, dys);
    ptx::wgmma_wait<1>();
    probabilities(
        p, causal && ahead < group_rows - 1, n.scale,
        [&](int j, int r) { return row_in_group(r) > ahead + column_of(j, r); },
        [&](int j, int r) { return lse[column_of(j, r)]; });
    as_left(p, left_p);
    ptx::wgmma_fence();
    start<D>(dv_sums, left_p, dys);
    ptx::wgmma_wait<1>();
    for_each_sum([&](int j, int r) { ds[j][r] = p[j][r] * (ds[j][r] - dots[column_of(j, r)]); });
    as_left(ds, left_ds);
    ptx::wgmma_fence();
    start<D>(dk_sums, left_ds, queries);
    ptx::wgmma_wait<0>();
  }
  __syncthreads();  // all have finished with keys and values
  store_group<D, block_rows>(dk_sums, n.scale, n.scale, keys, own, dk.matrix(n, first_matrix), mine,
                             n);
  store_group<D, block_rows>(dv_sums, 1.0F, 1.0F, values, own, dv.matrix(n, first_matrix), mine, n);
}

/// Computes dq of a block's queries, by iterating over the tiles of keys, if causal up to the
/// diagonal.
template <int D, bool causal, int groups>
__global__ void __launch_bounds__(groups* group_threads, 1)
    backward_queries(Inputs in, Strided<Bf16> dq) {
  constexpr int threads = groups * group_threads, block_rows = groups * group_rows;
  const Problem& n = in.n;
  auto* const queries = dynamic_shared<Bf16>();
  Bf16* const dys = queries + block_rows * D;
  Bf16* const stages = dys + block_rows * D;  // two: k and v

  const Place place =
      place_of(static_cast<int>(blockIdx.x), blocks_of(n.s, block_rows), n.matrices, causal);
  const int first = place.tile * block_rows, own = group() * group_rows, mine = first + own;
  const Matrix<const Bf16> k_matrix = in.k.matrix(n, place.matrix);
  const Matrix<const Bf16> v_matrix = in.v.matrix(n, place.matrix);
  const auto load = [&](int t) {
    Bf16* const to = stages + t % 2 * stage_elements<D>;
    load_panels<tile, D, threads>(to, k_matrix, t * tile, n);
    load_panels<tile, D, threads>(to + tile * D, v_matrix, t * tile, n);
    ptx::cp_async_commit();
  };
  load_panels<block_rows, D, threads>(queries, in.q.matrix(n, place.matrix), first, n);
  load_panels<block_rows, D, threads>(dys, in.dy.matrix(n, place.matrix), first, n);
  load(0);
  float lse[2] = {}, dots[2] = {};
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    const int query = mine + row_in_group(2 * half);
    if (query >= n.s) continue;
    lse[half] = in.lse[place.matrix * n.s + query];
    dots[half] = in.dots[place.matrix * n.s + query];
  }
  wait_for_copies();
  const Kept<D, groups> my_queries{queries, own}, my_dys{dys, own};

  Sums<D> sums = {};
  const int tiles = blocks_of(causal ? min(first + block_rows, n.s) : n.s, tile);
  for (int t = 0; t < tiles; ++t) {
    wait_for_copies();
    if (t + 1 < tiles) load(t + 1);
    const int ahead = mine - t * tile, keys_left = n.s - t * tile;
    if (causal && ahead + group_rows <= 0) continue;  // no query attends to these keys
    const Bf16* const keys = stages + t % 2 * stage_elements<D>;
    const Bf16* const values = keys + tile * D;

    WgmmaSums p, ds;
    std::uint32_t left[tile / 16][4];
    ptx::wgmma_fence();
    start_transposed<D>(p, my_queries, keys);
    start_transposed<D>(ds, my_dys, values);
    ptx::wgmma_wait<1>();
    probabilities(
        p, causal ? ahead < tile - 1 : keys_left < tile, n.scale,
        [&](int j, int r) {
          return causal ? column_of(j, r) > ahead + row_in_group(r) : column_of(j, r) >= keys_left;
        },
        [&](int, int r) { return lse[r / 2]; });
    ptx::wgmma_wait<0>();
    for_each_sum([&](int j, int r) { ds[j][r] = p[j][r] * (ds[j][r] - dots[r / 2]); });
    as_left(ds, left);
    ptx::wgmma_fence();
    start<D>(sums, left, keys);
    ptx::wgmma_wait<0>();
  }
  __syncthreads();  // all have finished with the queries
  store_group<D, block_rows>(sums, n.scale, n.scale, queries, own, dq.matrix(n, place.matrix), mine,
                             n);
}

}  // namespace

void launch_backward(bool causal, int groups, Queue queue, const Problem& n, View dy, View q,
                     View k, View v, View lse, const float* dots, View dq, View dk, View dv) {
  const Inputs in{n,
                  Strided<const Bf16>{dy},
                  Strided<const Bf16>{q},
                  Strided<const Bf16>{k, n.per_group},
                  Strided<const Bf16>{v, n.per_group},
                  lse.f32(),
                  dots};
  for_kernel(n.d, causal, groups, [&]<int D, bool is_causal, int wanted>() {
    constexpr int count = query_groups<D, wanted>;
    launch({"attention_backward (dk, dv, Hopper)", queue,
            Grid{blocks_of(n.s, key_groups * group_rows) * n.groups()},
            dim3(key_groups * group_threads), shared_bytes<D, key_groups>},
           backward_keys<D, is_causal>, in, Strided<Bf16>{dk, n.per_group},
           Strided<Bf16>{dv, n.per_group});
    launch({"attention_backward (dq, Hopper)", queue,
            Grid{blocks_of(n.s, count * group_rows) * n.matrices}, dim3(count * group_threads),
            shared_bytes<D, count>},
           backward_queries<D, is_causal, count>, in, Strided<Bf16>{dq});
  });
}

}  // namespace lockstep::cuda::hopper
