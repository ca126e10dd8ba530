/// Attention's forward pass for bf16 on Hopper. The algorithm is that of
/// kernels/cuda/attention_forward.cu; what differs is that products run while the threads compute
/// something else (FlashAttention-3, Shah et al. 2024, section 3.2):
///
///     issue S' = q k'ᵀ, the next tile's scores, and y += P v, this tile's product
///     wait for S', and turn it into P', while y is still being summed
///     wait for y, and rescale it to the new maximum
///
/// So each warpgroup has a product in flight during its softmax, and the block's other warpgroups
/// fill the rest. The keys are one tile ahead of the values.

#include "tests/gpu/variants/attention_hopper.cuh"
#include "tests/gpu/variants/attention_hopper.h"

namespace lockstep::cuda::hopper {
namespace {

/// Blocks per multiprocessor: with 2, a thread can have 128 registers.
template <int D, int groups>
constexpr int blocks = D == 64 && groups == 2 ? 2 : 1;

template <int D, int groups>
constexpr std::size_t shared_bytes = (groups * group_rows + 4 * tile) * D * sizeof(Bf16);

/// Storage for a warpgroup's queries. With 3 warpgroups, a thread can have 168 registers.
template <int D, int groups>
using Queries = std::conditional_t<D == 128 && groups == 3, InSharedMemory<D, groups * group_rows>,
                                   InRegisters<D, groups * group_rows>>;

/// A thread's softmax state for its two rows; sums are over its own columns.
struct Softmax {
  float maximum[2] = {-infinity, -infinity};
  float sum[2] = {0.0F, 0.0F};
};

template <class Combine>
__device__ float over_row(float x, Combine combine) {
  x = combine(x, __shfl_xor_sync(0xffffffffU, x, 1));
  return combine(x, __shfl_xor_sync(0xffffffffU, x, 2));
}

/// Sets the scores of keys that a query does not attend to, to -∞. `ahead` is first query - first
/// key, `left` the number of keys from the tile's first on.
template <bool causal>
__device__ void mask(WgmmaSums& scores, int ahead, int left) {
  if (causal ? ahead >= tile - 1 : left >= tile) return;
  for_each_sum([&](int j, int r) {
    if (causal ? column_of(j, r) > ahead + row_in_group(r) : column_of(j, r) >= left)
      scores[j][r] = -infinity;
  });
}

/// Replaces scores by e^(scale (score - maximum)), and returns the factors for the rows' earlier
/// sums.
__device__ float2 softmax_step(WgmmaSums& scores, Softmax& row, float scale_log2_e) {
  float factor[2];
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    float maximum = row.maximum[half];
#pragma unroll
    for (int j = 0; j < 8; ++j)
      maximum = fmaxf(maximum, fmaxf(scores[j][2 * half], scores[j][2 * half + 1]));
    maximum = over_row(maximum, [](float a, float b) { return fmaxf(a, b); });
    factor[half] = ptx::exp2_approximate((row.maximum[half] - maximum) * scale_log2_e);
    row.maximum[half] = maximum;
    const float shift = maximum * scale_log2_e;
    float sum = 0.0F;
#pragma unroll
    for (int j = 0; j < 8; ++j)
#pragma unroll
      for (int r = 2 * half; r < 2 * half + 2; ++r) {
        scores[j][r] = ptx::exp2_approximate(fmaf(scores[j][r], scale_log2_e, -shift));
        sum += scores[j][r];
      }
    row.sum[half] = fmaf(row.sum[half], factor[half], sum);
  }
  return {factor[0], factor[1]};
}

template <int D, bool causal, int groups>
__global__ void __launch_bounds__(groups* group_threads, blocks<D, groups>)
    forward(Problem n, Strided<const Bf16> q, Strided<const Bf16> k, Strided<const Bf16> v,
            Strided<Bf16> y, float* lse) {
  constexpr int threads = groups * group_threads, block_rows = groups * group_rows;
  constexpr int elements = tile * D;
  auto* const queries = dynamic_shared<Bf16>();
  Bf16* const keys = queries + block_rows * D;  // two tiles
  Bf16* const values = keys + 2 * elements;     // two tiles

  const Place place =
      place_of(static_cast<int>(blockIdx.x), blocks_of(n.s, block_rows), n.matrices, causal);
  const int first = place.tile * block_rows, own = group() * group_rows, mine = first + own;
  const Matrix<const Bf16> k_matrix = k.matrix(n, place.matrix);
  const Matrix<const Bf16> v_matrix = v.matrix(n, place.matrix);
  const float scale_log2_e = n.scale * log2_e;
  const auto load = [&](Bf16* tiles, Matrix<const Bf16> matrix, int t) {
    load_panels<tile, D, threads>(tiles + t % 2 * elements, matrix, t * tile, n);
  };
  // The block's tiles, and those to which this warpgroup's queries attend.
  const int tiles = blocks_of(causal ? min(first + block_rows, n.s) : n.s, tile);
  const int my_tiles = causal ? min(tiles, blocks_of(mine + group_rows, tile)) : tiles;

  load_panels<block_rows, D, threads>(queries, q.matrix(n, place.matrix), first, n);
  load(keys, k_matrix, 0);
  ptx::cp_async_commit();
  load(values, v_matrix, 0);
  if (tiles > 1) load(keys, k_matrix, 1);
  ptx::cp_async_commit();
  wait_for_copies<1>();
  const Queries<D, groups> my_queries{queries, own};

  Sums<D> sums = {};
  Softmax row;
  std::uint32_t probabilities[tile / 16][4];
  {
    WgmmaSums scores;
    ptx::wgmma_fence();
    start_transposed<D>(scores, my_queries, keys);
    ptx::wgmma_wait<0>();
    mask<causal>(scores, mine, n.s);
    softmax_step(scores, row, scale_log2_e);
    as_left(scores, probabilities);
  }
  for (int t = 0; t < tiles; ++t) {
    // After this, v's tile t and k's tile t + 1 are here, and all have finished with the tiles
    // before, which the next copies overwrite.
    wait_for_copies();
    if (t + 1 < tiles) load(values, v_matrix, t + 1);
    if (t + 2 < tiles) load(keys, k_matrix, t + 2);
    ptx::cp_async_commit();
    const Bf16* const current = values + t % 2 * elements;
    if (t + 1 < my_tiles) {
      WgmmaSums scores;
      ptx::wgmma_fence();
      start_transposed<D>(scores, my_queries, keys + (t + 1) % 2 * elements);
      start<D>(sums, probabilities, current);
      ptx::wgmma_wait<1>();
      const int first_key = (t + 1) * tile;
      mask<causal>(scores, mine - first_key, n.s - first_key);
      const float2 factor = softmax_step(scores, row, scale_log2_e);
      ptx::wgmma_wait<0>();
#pragma unroll
      for (int p = 0; p < panels<D>; ++p)
        for_each_sum([&](int j, int r) { sums[p][j][r] *= r < 2 ? factor.x : factor.y; });
      as_left(scores, probabilities);
    } else if (t + 1 == my_tiles) {
      ptx::wgmma_fence();
      start<D>(sums, probabilities, current);
      ptx::wgmma_wait<0>();
    }
  }

  float inverse[2];
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    const float sum = over_row(row.sum[half], [](float a, float b) { return a + b; });
    inverse[half] = 1.0F / sum;
    const int query = mine + row_in_group(2 * half);
    if (lane() % 4 == 0 && query < n.s)
      lse[static_cast<std::int64_t>(place.matrix) * n.s + query] =
          fmaf(row.maximum[half], n.scale, logf(sum));
  }
  __syncthreads();  // all have finished with the queries
  store_group<D, block_rows>(sums, inverse[0], inverse[1], queries, own, y.matrix(n, place.matrix),
                             mine, n);
}

}  // namespace

void launch_forward(bool causal, int groups, Queue queue, const Problem& n, View q, View k, View v,
                    View y, View lse) {
  for_kernel(n.d, causal, groups, [&]<int D, bool is_causal, int count>() {
    launch(
        {"attention_forward (Hopper)", queue, Grid{blocks_of(n.s, count * group_rows) * n.matrices},
         dim3(count * group_threads), shared_bytes<D, count>},
        forward<D, is_causal, count>, n, Strided<const Bf16>{q},
        Strided<const Bf16>{k, n.per_group}, Strided<const Bf16>{v, n.per_group}, Strided<Bf16>{y},
        lse.f32());
  });
}

}  // namespace lockstep::cuda::hopper
