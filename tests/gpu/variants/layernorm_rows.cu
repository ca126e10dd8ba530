/// Layer normalisation with one warp per row and four warps per block. (The kernels in use have one
/// block per row, which for 768 columns in 16 bits is one warp. A multiprocessor runs at most 32
/// blocks, and so at most half as many warps as it could.)
///
/// The backward pass reads dy and x once, and writes dx: 3 N h elements, instead of 5 N h by the
/// two kernels in use, which both read dy and x. Each warp computes dx row by row, and meanwhile
/// sums dy x̂ and dy of its columns in registers. A block adds its warps' sums in order, and
/// add_pieces (column_sums.cuh) adds those of the blocks. Which rows a block has depends only on
/// the shape, so the sums' order does, too.

#include "kernels/check.h"
#include "kernels/cuda/column_sums.cuh"
#include "kernels/cuda/layernorm_row.cuh"
#include "tests/gpu/variants/layernorm_rows.h"

namespace lockstep::cuda {
namespace {

constexpr int block_warps = 4;
constexpr int most_pieces = 528;  ///< 4 blocks on each of an H200's 132 multiprocessors

/// Adds over the warp's lanes in the order of BlockReduction; all lanes get the sum.
__device__ float over_lanes(float sum) {
#pragma unroll
  for (int distance = 1; distance < 32; distance *= 2)
    sum += __shfl_xor_sync(0xffffffffU, sum, distance);
  return sum;
}

/// A lane's chunks of a row, or of gain or bias: chunk `lane`, and every 32nd after it.
template <class T, bool whole>
struct LaneChunks {
  static constexpr int size = per_vector<T>;
  Chunk<T, size> chunk[kept];

  __device__ LaneChunks(const T* row, int columns) {
    const Source<T, whole> source{row, row + columns};
#pragma unroll
    for (int k = 0; k < kept; ++k)
      chunk[k] = source.template load<size>(first(k), count(k, columns), T{});
  }
  static __device__ int first(int k) {
    return (32 * k + static_cast<int>(threadIdx.x) % 32) * size;
  }
  static __device__ int count(int k, int columns) {
    const int left = columns - first(k);
    return left >= size ? size : (left > 0 ? left : 0);
  }
};

/// Calls visit(k, first column, count) for each of the lane's chunks of a row.
template <class T, bool whole, class Visit>
__device__ __forceinline__ void each_chunk(int h, Visit visit) {
  using Chunks = LaneChunks<T, whole>;
#pragma unroll
  for (int k = 0; k < kept; ++k)
    if (const int count = Chunks::count(k, h); count > 0) visit(k, Chunks::first(k), count);
}

template <class T, bool whole>
__global__ void __launch_bounds__(32 * block_warps)
    forward_four_rows(const T* x, const T* gain, const T* bias, float epsilon, T* y, float* means,
                      float* rstds, std::int64_t rows, int h) {
  constexpr int size = per_vector<T>;
  const std::int64_t row = std::int64_t{blockIdx.x} * block_warps + threadIdx.x / 32;
  if (row >= rows) return;
  const LaneChunks<T, whole> in(x + row * h, h);
  const auto count_h = static_cast<float>(h);
  float sum = 0.0F;
  each_chunk<T, whole>(h, [&](int k, int, int count) {
    first_elements<size, whole>(count, [&](int i) { sum += widen(in.chunk[k].at(i)); });
  });
  const float mean = over_lanes(sum) / count_h;
  float squares = 0.0F;
  each_chunk<T, whole>(h, [&](int k, int, int count) {
    first_elements<size, whole>(count, [&](int i) {
      const float centred = widen(in.chunk[k].at(i)) - mean;
      squares += centred * centred;
    });
  });
  const float rstd = 1.0F / sqrtf(over_lanes(squares) / count_h + epsilon);
  each_chunk<T, whole>(h, [&](int k, int first, int count) {
    const Chunk<T, size> g = columns_of<whole>(gain, h, first, count);
    const Chunk<T, size> b = columns_of<whole>(bias, h, first, count);
    const Chunk<T, size> out = rounded_chunk<T, size>([&](int i) {
      return (widen(in.chunk[k].at(i)) - mean) * rstd * widen(g.at(i)) + widen(b.at(i));
    });
    store<whole>(y + row * h + first, out, count);
  });
  if (threadIdx.x % 32 == 0) means[row] = mean, rstds[row] = rstd;
}

/// Computes dx of rows [piece * rows_per_piece, + rows_per_piece), and these rows' sums of dy x̂ and
/// dy, for one piece per block.
template <class T, bool adds, bool whole>
__global__ void __launch_bounds__(32 * block_warps)
    backward_one_pass(const T* dy, const T* x, const T* gain, const float* means,
                      const float* rstds, const T* other, T* dx, std::int64_t rows, int h,
                      std::int64_t rows_per_piece, float* dgain_sums, float* dbias_sums) {
  constexpr int size = per_vector<T>;
  using Chunks = LaneChunks<T, whole>;
  __shared__ float shared[32 * kept * size];
  const int warp = static_cast<int>(threadIdx.x) / 32;
  const auto count_h = static_cast<float>(h);
  float dgain[kept][size] = {}, dbias[kept][size] = {};
  const std::int64_t begin = blockIdx.x * rows_per_piece;
  const std::int64_t end = begin + rows_per_piece < rows ? begin + rows_per_piece : rows;
  for (std::int64_t row = begin + warp; row < end; row += block_warps) {
    const Chunks up(dy + row * h, h), in(x + row * h, h);
    const float mean = means[row], rstd = rstds[row];
    const auto d_of = [&](int k, const Chunk<T, size>& g, int i) {
      return widen(up.chunk[k].at(i)) * widen(g.at(i));
    };
    const auto normalised = [&](int k, int i) { return (widen(in.chunk[k].at(i)) - mean) * rstd; };
    float sum_d = 0.0F, sum_dx = 0.0F;  // of d = dy gain, and of d x̂
    each_chunk<T, whole>(h, [&](int k, int first, int count) {
      const Chunk<T, size> g = columns_of<whole>(gain, h, first, count);
      first_elements<size, whole>(count, [&](int i) {
        const float d = d_of(k, g, i), x_hat = normalised(k, i), wide = widen(up.chunk[k].at(i));
        sum_d += d;
        sum_dx += d * x_hat;
        dgain[k][i] += wide * x_hat;
        dbias[k][i] += wide;
      });
    });
    const float mean_d = over_lanes(sum_d) / count_h, mean_dx = over_lanes(sum_dx) / count_h;
    each_chunk<T, whole>(h, [&](int k, int first, int count) {
      const Chunk<T, size> g = columns_of<whole>(gain, h, first, count);
      Chunk<T, size> out = rounded_chunk<T, size>(
          [&](int i) { return rstd * (d_of(k, g, i) - mean_d - normalised(k, i) * mean_dx); });
      if constexpr (adds) {
        const Source<T, whole> others{other + row * h, other + (row + 1) * h};
        const Chunk<T, size> terms = others.template load<size>(first, count, T{});
        out = rounded_chunk<T, size>([&](int i) { return widen(terms.at(i)) + widen(out.at(i)); });
      }
      store<whole>(dx + row * h + first, out, count);
    });
  }
  // The warps add their sums in order.
  const auto add_up = [&](const float(&sums)[kept][size], float* to) {
    for (int w = 0; w < block_warps; ++w) {
      if (w == warp)
        each_chunk<T, whole>(h, [&](int k, int first, int count) {
          for (int i = 0; i < size; ++i)
            if (i < count) shared[first + i] = (w == 0 ? 0.0F : shared[first + i]) + sums[k][i];
        });
      __syncthreads();
    }
    for (int column = static_cast<int>(threadIdx.x); column < h; column += 32 * block_warps)
      to[std::int64_t{blockIdx.x} * h + column] = shared[column];
    __syncthreads();
  };
  add_up(dgain, dgain_sums);
  add_up(dbias, dbias_sums);
}

}  // namespace

void layernorm_forward_four_rows(Queue queue, In x, In gain, In bias, Out y, Out32 mean,
                                 Out32 rstd) {
  constexpr const char* name = "layernorm_forward (four rows)";
  const auto n = arguments::layernorm_forward(x, gain, bias, y, mean, rstd);
  with_type_of(x.dtype, [&](auto type) {
    using T = Pointee<decltype(type)>;
    with_whole({x, gain, bias, y}, [&](auto whole) {
      launch({name, queue, Grid{groups_of(block_warps, n.rows)}, dim3(32 * block_warps)},
             forward_four_rows<T, whole>, data_of<T>(x), data_of<T>(gain), data_of<T>(bias), 1e-5F,
             data_of<T>(y), mean.f32(), rstd.f32(), n.rows, static_cast<int>(n.columns));
    });
  });
}

void layernorm_backward_one_pass(Queue queue, In dy, In x, In gain, In32 mean, In32 rstd, In other,
                                 Out dx, InOut dgain, InOut dbias) {
  constexpr const char* name = "layernorm_backward (one pass)";
  const auto n = arguments::layernorm_backward_input(dy, x, gain, mean, rstd, dx);
  arguments::layernorm_backward_weight(dy, x, mean, rstd, dgain, dbias);
  if (n.rows == 0) return;
  const std::int64_t wanted = groups_of(4 * block_warps, n.rows);
  const std::int64_t rows_per_piece =
      groups_of(wanted < most_pieces ? wanted : most_pieces, n.rows);
  const std::int64_t pieces = groups_of(rows_per_piece, n.rows);
  const auto one = static_cast<std::size_t>(pieces * n.columns);
  const Scratch<float> sums(queue, 2 * one);
  with_type_of(x.dtype, [&](auto type) {
    using T = Pointee<decltype(type)>;
    with_whole({dy, x, gain, other, dx}, [&](auto whole) {
      with(bool{other}, [&](auto adds) {
        launch({name, queue, Grid{pieces}, dim3(32 * block_warps)},
               backward_one_pass<T, adds, whole>, data_of<T>(dy), data_of<T>(x), data_of<T>(gain),
               mean.f32(), rstd.f32(), data_of<T>(other), data_of<T>(dx), n.rows,
               static_cast<int>(n.columns), rows_per_piece, sums.data(), sums.data() + one);
      });
    });
    const Grid blocks{groups_of(column_lanes, n.columns)};
    const dim3 threads(column_lanes, column_adders);
    launch({name, queue, blocks, threads}, add_pieces<T>, sums.data(), pieces, n.columns,
           data_of<T>(dgain));
    launch({name, queue, blocks, threads}, add_pieces<T>, sums.data() + one, pieces, n.columns,
           data_of<T>(dbias));
  });
}

}  // namespace lockstep::cuda
