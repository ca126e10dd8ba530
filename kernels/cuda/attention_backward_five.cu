/// Causal attention's backward pass for bf16 and f16 with five products, in a fixed order.
///
/// attention_backward.cu computes the scores S and the gradient dP of the probabilities twice: for
/// dk and dv, and again for dq. Here one kernel with one block per tile of keys computes them once
/// and uses them for all three:
///
///     S = q kᵀ        dv = Pᵀ dy        dP = dy vᵀ        dk = scale dSᵀ q        dq = scale dS k
///
/// That leaves one difficulty: all blocks of keys up to the diagonal add to the same rows of dq.
/// Atomic additions would happen in arbitrary order, so the bits would change from run to run. As
/// in FlashAttention-2's deterministic mode, blocks therefore take turns.
///
/// **Order.** A piece of dq, 16 queries by half of the columns, belongs to one warp of each block.
/// Its sum is in f32 in global memory, and a counter says how many blocks of keys have added to it.
/// The warp of block j waits until the counter is j, loads the sum, lets mma add the block's keys
/// to it, stores it, and sets the counter to j + 1. Block 0 starts from zero instead of loading,
/// and the block on the diagonal, which is the last, stores the scaled and rounded sum to dq
/// instead. So dq is summed over ascending keys, exactly as in attention_backward.cu, and is
/// bitwise identical, provided that mma sums an element in the same way whichever operand is on the
/// left (see there). All blocks process the queries from the last tile to the diagonal: they begin
/// with the same tile, and each can follow the previous one at a distance of one tile. In ascending
/// order, each block would begin four tiles (at d = 64) after the previous one. dk and dv are
/// therefore summed over descending queries, and their bits differ from attention_backward.cu's.
///
/// **No deadlock.** A waiting block occupies a multiprocessor, and CUDA does not promise to start
/// blocks in the order of blockIdx. Each block therefore takes a ticket from an atomic counter
/// when it starts, and the ticket determines its tile. Tickets run through a matrix's tiles in
/// ascending order (see place_of), so a block waits only for blocks with smaller tickets. These
/// have started, and a block that has started keeps its place until it ends. The block with the
/// smallest ticket of those still running waits for nobody; hence some block always makes progress.
/// Tickets decide where a block works, not the order of any sum, so results do not depend on them.
///
/// **Visibility.** The sum travels through the L2 cache, which all multiprocessors share. Stores go
/// there, and __ldcg loads from there, past the L1 cache, which is not coherent. The counter orders
/// them, by the rules of the PTX memory model: the lanes' stores happen before __syncwarp, and that
/// before lane 0's store-release; each lane of the next block reads the counter with a load-acquire
/// before it loads the sum. An element is always handled by the same lane of the same warp.
///
/// **Groups.** A block handles one query head. If several query heads share a head of k and v,
/// attention.cpp calls the version with seven products instead.
///
/// FLOPs per head: 5 s² d (1 + 32 / s). Bytes: the sum, in f32, is read and written once per pair
/// of a block of keys and a tile of queries, except by the first block and the last. At d = 64,
/// that is 8 KB each way for 2.6 MFLOP. The sum takes 4 bytes per element of dq.
///
/// dSᵀ is in registers as a left operand, which is what dk needs. dq needs dS as the left operand,
/// with all of the block's keys, so the warps exchange it through shared memory in 16 bits.
///
///     d      rows of a block   shared memory   registers per thread (of 255)
///     64     128               65 KB           dk 64, dv 64, scores 32, dP 32; then dq 16
///     128    64                74 KB           dk 64, dv 64, scores 16, dP 16; then dq 32
///
/// 2 blocks fit on a multiprocessor, and no registers are spilled. This kernel has been compiled
/// and emulated, but has not been run on a GPU yet.

#include "kernels/cuda/attention_backward.cuh"
#include "kernels/cuda/check.h"

namespace lockstep::cuda {
namespace {

/// Global memory that the blocks of a launch share.
struct Turns {
  float* sums;   ///< the pieces of dq, each in the order in which lanes hold it
  int* added;    ///< per piece, how many blocks of keys have added to it; initially 0
  int* tickets;  ///< how many blocks have started; initially 0
};

/// A warp's piece of dq: 16 queries of a tile, by half of the columns.
template <int D>
using PieceSums = Sums<1, D / 2>;
template <int D>
constexpr int piece_elements = 16 * D / 2;

/// The warp's turn to add to a piece.
template <int D>
class Turn {
 public:
  __device__ Turn(const Turns& turns, int piece)
      : sums_(reinterpret_cast<float4*>(turns.sums) +
              static_cast<std::int64_t>(piece) * (piece_elements<D> / 4) + lane()),
        added_(turns.added + piece) {}

  /// Waits until `blocks` have added to the piece, and loads its sum.
  __device__ void begin(PieceSums<D>& sums, int blocks) const {
    ptx::wait_for(added_, blocks);
    __syncwarp();
#pragma unroll
    for (int j = 0; j < D / 16; ++j) {
      const float4 loaded = __ldcg(sums_ + 32 * j);
      sums[0][j][0] = loaded.x, sums[0][j][1] = loaded.y;
      sums[0][j][2] = loaded.z, sums[0][j][3] = loaded.w;
    }
  }
  /// Stores the sum, to which `blocks` have added now.
  __device__ void end(const PieceSums<D>& sums, int blocks) const {
#pragma unroll
    for (int j = 0; j < D / 16; ++j)
      __stcg(sums_ + 32 * j,
             make_float4(sums[0][j][0], sums[0][j][1], sums[0][j][2], sums[0][j][3]));
    __syncwarp();  // orders the lanes' stores before the release
    if (lane() == 0) ptx::store_release(added_, blocks);
  }

 private:
  float4* sums_;
  int* added_;
};

/// Stores the warp's rows of dSᵀ, in the layout of a left operand, to its rows of a tile.
template <class T, int M>
__device__ void store_left(T* own, const Registers<T, M, tile>& left) {
#pragma unroll
  for (int m = 0; m < M; ++m)
#pragma unroll
    for (int k = 0; k < tile / 16; ++k)
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        const int row = 16 * m + lane() / 4 + i % 2 * 8;
        const int column = 16 * k + lane() % 4 * 2 + i / 2 * 8;
        *reinterpret_cast<std::uint32_t*>(own + row * pitch<tile> + column) = left.parts[m][k][i];
      }
}

/// Computes sums (16, D / 2) += dS k for the first `count` keys, a multiple of 32. `ds` points to
/// the first of the 16 queries, which are columns of dSᵀ, so ldmatrix transposes the left operand
/// too. `keys` points to the first of the columns.
template <class T, int D>
__device__ void add_keys(PieceSums<D>& sums, const T* ds, const T* keys, int count) {
  ds += (lane() / 16 * 8 + lane() % 8) * pitch<tile> + lane() / 8 % 2 * 8;
  keys += lane() % 16 * pitch<D> + lane() / 16 * 8;
#pragma unroll 1
  for (int first = 0; first < count; first += 32)
#pragma unroll
    for (int k = first; k < first + 32; k += 16) {
      std::uint32_t left[4];
      ptx::ldmatrix_x4_transposed(left, ds + k * pitch<tile>);
#pragma unroll
      for (int j = 0; j < D / 32; ++j) {
        std::uint32_t right[4];
        ptx::ldmatrix_x4_transposed(right, keys + k * pitch<D> + 16 * j);
        ptx::mma_m16n8k16<T>(sums[0][2 * j], left, right[0], right[1]);
        ptx::mma_m16n8k16<T>(sums[0][2 * j + 1], left, right[2], right[3]);
      }
    }
}

/// Stores a piece of dq, scaled. `stage` is a stage that is no longer in use.
template <class T, int D>
__device__ void store_piece(const PieceSums<D>& sums, T* stage, Matrix<T> dq, int first, int column,
                            const Problem& n) {
  Problem part = n;
  part.d -= column;
  const float scale[1][2] = {{n.scale, n.scale}};
  store_rows<T, 1, D / 2>(sums, scale, stage + warp() * 16 * pitch<D / 2>,
                          {dq.data + column, dq.stride}, first, part);
}

/// Two stages and, in addition, the block's dSᵀ.
template <class T, int D>
constexpr std::size_t five_shared_bytes = shared_bytes<T, D> +
                                          block_rows<D>* pitch<tile> * sizeof(T);

/// Computes dk and dv for one tile of keys, and adds these keys to dq, by iterating over the tiles
/// of queries, from the last to the diagonal.
template <class T, int D>
__global__ void __launch_bounds__(threads, 2)
    backward_five(Backward<T> in, Turns turns, Strided<T> dq, Strided<T> dk, Strided<T> dv) {
  constexpr int M = strips<D>, rows = block_rows<D>;
  const Problem& n = in.n;
  T* const keys = dynamic_shared<T>();
  T* const values = keys + rows * pitch<D>;
  T* const stages = values + rows * pitch<D>;  // two
  T* const shared_ds = stages + 2 * stage_elements<T, D>;

  int* const ticket = reinterpret_cast<int*>(shared_ds);  // until the loop's first barrier
  if (threadIdx.x == 0) *ticket = atomicAdd(turns.tickets, 1);
  __syncthreads();
  const Place place = place_of(*ticket, blocks_of(n.s, rows), n.matrices, false);
  const int first = place.tile * rows, mine = first + warp() * 16 * M;
  const int own = warp() * 16 * M * pitch<D>;  // the warp's rows of keys and values

  const int tiles = blocks_of(n.s, tile);
  const QueryRows<T> query_rows{in, place.matrix};
  load_tile<rows, D>(keys, in.k.matrix(n, place.matrix), first, n);
  load_tile<rows, D>(values, in.v.matrix(n, place.matrix), first, n);
  Queries<T, D>{stages}.load(query_rows, (tiles - 1) * tile, n);

  const InShared<T, M, D> my_keys{keys + own}, my_values{values + own};
  Sums<M, D> dk_sums = {}, dv_sums = {};
  for (int first_query = (tiles - 1) * tile, odd = 0; first_query >= first;
       first_query -= tile, odd ^= 1) {
    // After this, the tile is visible to all threads, and all have finished with the previous tile
    // and with its dS.
    ptx::cp_async_wait<0>();
    __syncthreads();
    T* const stage = stages + odd * stage_elements<T, D>;
    if (first_query - tile >= first)
      Queries<T, D>{stages + (odd ^ 1) * stage_elements<T, D>}.load(query_rows, first_query - tile,
                                                                    n);
    const Queries<T, D> queries{stage};
    const bool attended = first_query + tile > mine;  // some query attends to the warp's keys

    if (attended) {
      Sums<M, tile> p = {}, ds = {};
      probabilities_of_keys<T, M, D>(p, in, place.matrix, my_keys, mine, queries, first_query);
      multiply<T, M, tile, D>(dv_sums, as_left<T, M, tile>(p), queries.dy);
      score_gradients_of_keys<T, M, D>(ds, p, my_values, queries);
      const auto left = as_left<T, M, tile>(ds);
      store_left<T, M>(shared_ds + warp() * 16 * M * pitch<tile>, left);
      multiply<T, M, tile, D>(dk_sums, left, queries.q);
    }
    // The warp's piece of the tile's dq.
    const int strip = warp() / 2 * 16, column = warp() % 2 * (D / 2);
    const Turn<D> turn{turns, (first_query / tile * n.matrices + place.matrix) * warps + warp()};
    PieceSums<D> dq_sums = {};
    if (first > 0) turn.begin(dq_sums, first / rows);
    __syncthreads();  // dS is complete, and the tile no longer in use
    add_keys<T, D>(dq_sums, shared_ds + strip, keys + column,
                   min(rows, first_query + tile - first));
    if (first_query >= first + rows)
      turn.end(dq_sums, first / rows + 1);
    else  // at the diagonal: this block is the last to add
      store_piece<T, D>(dq_sums, stage, dq.matrix(n, place.matrix), first_query + strip, column, n);
  }
  store_keys<T, M, D>(dk_sums, dv_sums, dk.matrix(n, place.matrix), dv.matrix(n, place.matrix),
                      values + own, values + own, mine, n);
}

}  // namespace

void attention_backward_narrow_five(Queue queue, const Problem& n, View dy, View q, View k, View v,
                                    View lse, View probabilities, const float* dots, View dq,
                                    View dk, View dv) {
  for_narrow_head(q.dtype, n.d, [&]<class T, int D>() {
    const Backward<T> in{n, dy, q, k, v, lse, probabilities, dots};
    const int key_blocks = blocks_of(n.s, block_rows<D>);
    const auto pieces = static_cast<std::size_t>(blocks_of(n.s, tile)) *
                        static_cast<std::size_t>(n.matrices * warps);
    // A single block of keys adds up dq in its registers.
    const Scratch<float> sums(queue, key_blocks > 1 ? pieces * piece_elements<D> : 0);
    const Scratch<int> counters(queue, pieces + 1);
    LOCKSTEP_CUDA(
        cudaMemsetAsync(counters.data(), 0, (pieces + 1) * sizeof(int), stream_of(queue)));
    const Turns turns{sums.data(), counters.data(), counters.data() + pieces};
    launch({"attention_backward (dq, dk, dv)", queue,
            Grid{static_cast<std::int64_t>(key_blocks) * n.matrices}, dim3(threads),
            five_shared_bytes<T, D>},
           backward_five<T, D>, in, turns, Strided<T>{dq}, Strided<T>{dk}, Strided<T>{dv});
  });
}

}  // namespace lockstep::cuda
