/// Layer normalisation and RMSNorm, forward: 2 N h elements move (x in, y out); gain and bias stay
/// in cache.
///
/// The variance is the mean of (x - E[x])², because E[x²] - E[x]² would lose digits to
/// cancellation; this needs a second pass over the row, which layernorm_row.cuh keeps in registers.
///
/// Fused with the residual connection's addition before it, the kernel reads a and b and writes sum
/// and y, 4 N h elements instead of the pair's 5: the sum is not read again. It continues from the
/// rounded sum, so the results are bitwise identical to those of the pair. For that reason, this
/// file is compiled without fused multiply-adds, which the compiler could place differently in the
/// two kernels.

#include "kernels/arguments.h"
#include "kernels/check.h"
#include "kernels/cuda/device_kernels.h"
#include "kernels/cuda/launch.cuh"
#include "kernels/cuda/layernorm_row.cuh"

namespace lockstep::cuda {
namespace {

constexpr float layernorm_epsilon = 1e-5F;

/// Normalises the block's row. RMSNorm has no bias and no means.
template <Norm norm, class T, bool whole>
__device__ __forceinline__ void normalise(const RowPart<T, whole>& part, const T* gain,
                                          const T* bias, float epsilon, T* y, float* means,
                                          float* rstds, int h) {
  using Sums = BlockReduction<float, most_threads>;
  __shared__ typename Sums::Storage storage;
  constexpr int size = per_vector<T>;
  const std::int64_t row = blockIdx.x;
  const auto count_h = static_cast<float>(h);

  float mean = 0.0F;
  if constexpr (norm == Norm::layer) {
    float sum = 0.0F;
    part.each([&](int, int count, const Chunk<T, size>& chunk) {
      first_elements<size, whole>(count, [&](int i) { sum += widen(chunk.at(i)); });
    });
    mean = Sums(storage)(sum, Sum{}) / count_h;
  }

  float squares = 0.0F;
  part.each([&](int, int count, const Chunk<T, size>& chunk) {
    first_elements<size, whole>(count, [&](int i) {
      const float centred = widen(chunk.at(i)) - mean;
      squares += centred * centred;
    });
  });
  const float variance = Sums(storage)(squares, Sum{}) / count_h;
  const float rstd = 1.0F / sqrtf(variance + epsilon);

  part.each([&](int first, int count, const Chunk<T, size>& chunk) {
    const Chunk<T, size> g = columns_of<whole>(gain, h, first, count);
    Chunk<T, size> b;
    if constexpr (norm == Norm::layer) b = columns_of<whole>(bias, h, first, count);
    const Chunk<T, size> out = rounded_chunk<T, size>([&](int i) {
      const float scaled = (widen(chunk.at(i)) - mean) * rstd * widen(g.at(i));
      return norm == Norm::layer ? scaled + widen(b.at(i)) : scaled;
    });
    store<whole>(y + row * h + first, out, count);
  });
  if (threadIdx.x == 0) {
    if constexpr (norm == Norm::layer) means[row] = mean;
    rstds[row] = rstd;
  }
}

template <class T, Norm norm, bool whole>
__global__ void __launch_bounds__(most_threads, 2)  // two blocks per multiprocessor
    layernorm_kernel(const T* x, const T* gain, const T* bias, float epsilon, T* y, float* means,
                     float* rstds, int h) {
  const RowPart<T, whole> part(x + std::int64_t{blockIdx.x} * h, h);
  normalise<norm>(part, gain, bias, epsilon, y, means, rstds, h);
}

/// Does the same for the sum of a and b.
template <class T, bool whole>
__global__ void __launch_bounds__(most_threads)
    add_layernorm_kernel(const T* a, const T* b, T* sum, const T* gain, const T* bias, T* y,
                         float* means, float* rstds, int h) {
  const std::int64_t first = std::int64_t{blockIdx.x} * h;
  const RowPart<T, whole> part(a + first, b + first, sum + first, h);
  normalise<Norm::layer>(part, gain, bias, layernorm_epsilon, y, means, rstds, h);
}

void layernorm_forward(Queue queue, In x, In gain, In bias, Out y, Out32 mean, Out32 rstd) {
  constexpr const char* name = "layernorm_forward";
  const auto n = arguments::layernorm_forward(x, gain, bias, y, mean, rstd);
  want_one_type(name, {{"x", x}, {"gain", gain}, {"bias", bias}, {"y", y}});
  with_type_of(x.dtype, [&](auto type) {
    using T = Pointee<decltype(type)>;
    with_whole({x, gain, bias, y}, [&](auto whole) {
      launch({name, queue, Grid{n.rows}, threads_for<T>(n.columns)},
             layernorm_kernel<T, Norm::layer, whole>, data_of<T>(x), data_of<T>(gain),
             data_of<T>(bias), layernorm_epsilon, data_of<T>(y), mean.f32(), rstd.f32(),
             static_cast<int>(n.columns));
    });
  });
}

void rmsnorm_forward(Queue queue, In x, In gain, float epsilon, Out y, Out32 rstd) {
  constexpr const char* name = "rmsnorm_forward";
  const auto n = arguments::rmsnorm_forward(x, gain, y, rstd);
  want_one_type(name, {{"x", x}, {"gain", gain}, {"y", y}});
  with_type_of(x.dtype, [&](auto type) {
    using T = Pointee<decltype(type)>;
    with_whole({x, gain, y}, [&](auto whole) {
      launch({name, queue, Grid{n.rows}, threads_for<T>(n.columns)},
             layernorm_kernel<T, Norm::rms, whole>, data_of<T>(x), data_of<T>(gain), nullptr,
             epsilon, data_of<T>(y), nullptr, rstd.f32(), static_cast<int>(n.columns));
    });
  });
}

void add_layernorm_forward(Queue queue, In a, In b, Out sum, In gain, In bias, Out y, Out32 mean,
                           Out32 rstd) {
  constexpr const char* name = "add_layernorm_forward";
  arguments::add(a, b, sum);
  const auto n = arguments::layernorm_forward(sum, gain, bias, y, mean, rstd);
  want_one_type(name, {{"a", a}, {"b", b}, {"sum", sum}, {"gain", gain}, {"bias", bias}, {"y", y}});
  with_type_of(sum.dtype, [&](auto type) {
    using T = Pointee<decltype(type)>;
    with_whole({a, b, sum, gain, bias, y}, [&](auto whole) {
      launch({name, queue, Grid{n.rows}, threads_for<T>(n.columns)}, add_layernorm_kernel<T, whole>,
             data_of<T>(a), data_of<T>(b), data_of<T>(sum), data_of<T>(gain), data_of<T>(bias),
             data_of<T>(y), mean.f32(), rstd.f32(), static_cast<int>(n.columns));
    });
  });
}

}  // namespace

void set_layernorm_forward(Kernels& kernels) {
  kernels.layernorm_forward = layernorm_forward;
  kernels.add_layernorm_forward = add_layernorm_forward;
  kernels.rmsnorm_forward = rmsnorm_forward;
}

}  // namespace lockstep::cuda
