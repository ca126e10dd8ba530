/// Layer normalisation with one block per row; the block keeps its row in registers.
///
/// Forward moves 2 N h elements (x in, y out), backward_input 3 N h, backward_weight 2 N h; gain
/// and bias stay in cache. The variance is the mean of (x - E[x])², because E[x²] - E[x]² would
/// lose digits to cancellation; this needs a second pass over the row. A block has the smallest
/// number of warps that can hold the row with four 16-byte chunks per thread. A short row needs
/// only one warp, so many blocks fit on a multiprocessor and overlap their loads. With the most
/// threads, a row of 8,192 f32 elements fits; each pass reads what is left of a longer row again,
/// mostly from the L2 cache.

#include "kernels/arguments.h"
#include "kernels/check.h"
#include "kernels/cuda/chunk.cuh"
#include "kernels/cuda/column_sums.cuh"
#include "kernels/cuda/device_kernels.h"
#include "kernels/cuda/launch.cuh"
#include "kernels/cuda/reduce.cuh"

namespace lockstep::cuda {
namespace {

constexpr float epsilon = 1e-5F;
constexpr int kept = 4;            // chunks that a thread keeps in registers
constexpr int most_threads = 512;  // per block

/// The part of a row that belongs to one thread: chunk threadIdx.x and every blockDim.x-th chunk
/// after that.
template <class T>
class RowPart {
 public:
  static constexpr int size = per_vector<T>;

  __device__ RowPart(const T* row, int columns) : source_{row, row + columns}, columns_(columns) {
#pragma unroll
    for (int k = 0; k < kept; ++k) chunks_[k] = load(k);
  }

  /// Calls visit(first column, count, chunk) for each chunk.
  template <class Visit>
  __device__ void each(Visit visit) const {
#pragma unroll
    for (int k = 0; k < kept; ++k)
      if (count(k) > 0) visit(first(k), count(k), chunks_[k]);
    for (int k = kept; first(k) < columns_; ++k) visit(first(k), count(k), load(k));
  }

  /// Calls visit(first column, count, chunk, the other row's chunk) for each chunk.
  template <class Visit>
  __device__ void each_with(const RowPart& other, Visit visit) const {
#pragma unroll
    for (int k = 0; k < kept; ++k)
      if (count(k) > 0) visit(first(k), count(k), chunks_[k], other.chunks_[k]);
    for (int k = kept; first(k) < columns_; ++k) visit(first(k), count(k), load(k), other.load(k));
  }

 private:
  __device__ Chunk<T, size> load(int k) const {
    return source_.template load<size>(first(k), count(k), T{});
  }
  __device__ int first(int k) const {
    return (k * static_cast<int>(blockDim.x) + static_cast<int>(threadIdx.x)) * size;
  }
  __device__ int count(int k) const {
    const int left = columns_ - first(k);
    return left >= size ? size : (left > 0 ? left : 0);
  }

  Source<T> source_;
  int columns_;
  Chunk<T, size> chunks_[kept];
};

/// Loads one chunk's columns of gain or bias.
template <class T>
__device__ Chunk<T, per_vector<T>> columns_of(const T* of, int columns, int first, int count) {
  return Source<T>{of, of + columns}.template load<per_vector<T>>(first, count, T{});
}

template <class T>
__global__ void __launch_bounds__(most_threads, 2)  // two blocks per multiprocessor
    layernorm_kernel(const T* x, const T* gain, const T* bias, T* y, float* means, float* rstds,
                     int h) {
  using Sums = BlockReduction<float, most_threads>;
  __shared__ typename Sums::Storage storage;
  constexpr int size = per_vector<T>;
  const std::int64_t row = blockIdx.x;
  const RowPart<T> part(x + row * h, h);
  const auto count_h = static_cast<float>(h);

  float sum = 0.0F;
  part.each([&](int, int count, const Chunk<T, size>& chunk) {
    for (int i = 0; i < size; ++i) sum += i < count ? widen(chunk.at[i]) : 0.0F;
  });
  const float mean = Sums(storage)(sum, Sum{}) / count_h;

  float squares = 0.0F;
  part.each([&](int, int count, const Chunk<T, size>& chunk) {
    for (int i = 0; i < size; ++i) {
      const float centred = widen(chunk.at[i]) - mean;
      squares += i < count ? centred * centred : 0.0F;
    }
  });
  const float variance = Sums(storage)(squares, Sum{}) / count_h;
  const float rstd = 1.0F / sqrtf(variance + epsilon);

  part.each([&](int first, int count, const Chunk<T, size>& chunk) {
    const Chunk<T, size> g = columns_of(gain, h, first, count);
    const Chunk<T, size> b = columns_of(bias, h, first, count);
    Chunk<T, size> out;
    for (int i = 0; i < size; ++i)
      out.at[i] = rounded<T>((widen(chunk.at[i]) - mean) * rstd * widen(g.at[i]) + widen(b.at[i]));
    store(y + row * h + first, out, count);
  });
  if (threadIdx.x == 0) {
    means[row] = mean;
    rstds[row] = rstd;
  }
}

/// Computes dx. With x̂ = (x - mean) rstd and d = dy gain:  dx = rstd (d - mean(d) - x̂ mean(d
/// x̂)).
template <class T>
__global__ void __launch_bounds__(most_threads)
    backward_input_kernel(const T* dy, const T* x, const T* gain, const float* means,
                          const float* rstds, T* dx, int h) {
  using Sums = BlockReduction<float2, most_threads>;
  __shared__ typename Sums::Storage storage;
  constexpr int size = per_vector<T>;
  const std::int64_t row = blockIdx.x;
  const RowPart<T> up(dy + row * h, h);
  const RowPart<T> in(x + row * h, h);
  const float mean = means[row];
  const float rstd = rstds[row];

  /// Calls visit(first column, count, d, x̂) for each chunk.
  const auto each = [&](auto visit) {
    up.each_with(in,
                 [&](int first, int count, const Chunk<T, size>& dys, const Chunk<T, size>& xs) {
                   const Chunk<T, size> g = columns_of(gain, h, first, count);
                   float d[size], normalised[size];
                   for (int i = 0; i < size; ++i) {
                     d[i] = widen(dys.at[i]) * widen(g.at[i]);
                     normalised[i] = (widen(xs.at[i]) - mean) * rstd;
                   }
                   visit(first, count, d, normalised);
                 });
  };

  float2 sums{0.0F, 0.0F};  // of d and of d x̂
  each([&](int, int count, const float(&d)[size], const float(&normalised)[size]) {
    for (int i = 0; i < size; ++i) {
      sums.x += i < count ? d[i] : 0.0F;
      sums.y += i < count ? d[i] * normalised[i] : 0.0F;
    }
  });
  sums = Sums(storage)(sums, [](float2 a, float2 b) { return float2{a.x + b.x, a.y + b.y}; });
  const float mean_d = sums.x / static_cast<float>(h);
  const float mean_dx = sums.y / static_cast<float>(h);

  each([&](int first, int count, const float(&d)[size], const float(&normalised)[size]) {
    Chunk<T, size> out;
    for (int i = 0; i < size; ++i)
      out.at[i] = rounded<T>(rstd * (d[i] - mean_d - normalised[i] * mean_dx));
    store(dx + row * h + first, out, count);
  });
}

/// The terms that backward_weight sums over rows: dy x̂ for dgain, and dy for dbias.
template <class T>
struct WeightGradients {
  Rows<const T> dy, x;
  const float* mean;
  const float* rstd;

  template <int size>
  __device__ void operator()(std::int64_t row, std::int64_t first, int count, std::int64_t columns,
                             float (&dgain)[size], float (&dbias)[size]) const {
    const Chunk<T, size> up = dy.row(row, columns).template load<size>(first, count, T{});
    const Chunk<T, size> in = x.row(row, columns).template load<size>(first, count, T{});
    const float mu = mean[row], r = rstd[row];
    for (int i = 0; i < size; ++i) {
      dgain[i] += widen(up.at[i]) * ((widen(in.at[i]) - mu) * r);
      dbias[i] += widen(up.at[i]);
    }
  }
};

/// Returns the number of threads per block for rows of h elements; see the top of the file.
template <class T>
dim3 threads_for(std::int64_t h) {
  const std::int64_t warp_keeps = 32 * kept * per_vector<T>;
  if (h <= warp_keeps) return 32;
  if (h <= 2 * warp_keeps) return 64;
  if (h <= 4 * warp_keeps) return 128;
  return most_threads;
}

void layernorm_forward(Queue queue, In x, In gain, In bias, Out y, Out32 mean, Out32 rstd) {
  constexpr const char* name = "layernorm_forward";
  const auto n = arguments::layernorm_forward(x, gain, bias, y, mean, rstd);
  want_one_type(name, {{"x", x}, {"gain", gain}, {"bias", bias}, {"y", y}});
  with_type_of(x.dtype, [&](auto type) {
    using T = Pointee<decltype(type)>;
    launch({name, queue, Grid{n.rows}, threads_for<T>(n.columns)}, layernorm_kernel<T>,
           data_of<T>(x), data_of<T>(gain), data_of<T>(bias), data_of<T>(y), mean.f32(), rstd.f32(),
           static_cast<int>(n.columns));
  });
}

void layernorm_backward_input(Queue queue, In dy, In x, In gain, In32 mean, In32 rstd, Out dx) {
  constexpr const char* name = "layernorm_backward_input";
  const auto n = arguments::layernorm_backward_input(dy, x, gain, mean, rstd, dx);
  want_one_type(name, {{"dy", dy}, {"x", x}, {"gain", gain}, {"dx", dx}});
  with_type_of(x.dtype, [&](auto type) {
    using T = Pointee<decltype(type)>;
    launch({name, queue, Grid{n.rows}, threads_for<T>(n.columns)}, backward_input_kernel<T>,
           data_of<T>(dy), data_of<T>(x), data_of<T>(gain), mean.f32(), rstd.f32(), data_of<T>(dx),
           static_cast<int>(n.columns));
  });
}

void layernorm_backward_weight(Queue queue, In dy, In x, In32 mean, In32 rstd, InOut dgain,
                               InOut dbias) {
  constexpr const char* name = "layernorm_backward_weight";
  const auto n = arguments::layernorm_backward_weight(dy, x, mean, rstd, dgain, dbias);
  want_one_type(name, {{"dy", dy}, {"x", x}, {"dgain", dgain}, {"dbias", dbias}});
  with_type_of(x.dtype, [&](auto type) {
    using T = Pointee<decltype(type)>;
    const WeightGradients<T> gradients{rows_of<const T>(dy), rows_of<const T>(x), mean.f32(),
                                       rstd.f32()};
    add_column_sums(name, queue, gradients, n, data_of<T>(dgain), data_of<T>(dbias));
  });
}

}  // namespace

void set_layernorm(Kernels& kernels) {
  kernels.layernorm_forward = layernorm_forward;
  kernels.layernorm_backward_input = layernorm_backward_input;
  kernels.layernorm_backward_weight = layernorm_backward_weight;
}

}  // namespace lockstep::cuda
