/// Sums over an array in double, in an order that depends only on the number of elements: chunk i
/// goes to thread i modulo the total number of threads; each thread adds its chunks in ascending
/// order; each block adds its threads' sums (reduce.cuh), and one block adds the blocks' sums.
/// Reads each element once and writes 8 bytes per block. Atomic additions would avoid the second
/// step, but their order would be arbitrary.

#include "kernels/arguments.h"
#include "kernels/cuda/chunk.cuh"
#include "kernels/cuda/device_kernels.h"
#include "kernels/cuda/launch.cuh"
#include "kernels/cuda/reduce.cuh"

namespace lockstep::cuda {
namespace {

constexpr int threads = 256;
constexpr int size = 8;    // elements per chunk; the same for all types, to fix the order
constexpr int chunks = 4;  // number of chunks that a thread loads before it adds
constexpr std::int64_t most_blocks = 1024;

struct Value {
  __device__ double operator()(float x) const { return x; }
};
struct Square {
  __device__ double operator()(float x) const { return double{x} * double{x}; }
};
struct NotFinite {
  // The comparison is also false for NaN.
  __device__ double operator()(float x) const { return fabsf(x) <= 3.402823466e38F ? 0.0 : 1.0; }
};

template <class T, class F>
__global__ void __launch_bounds__(threads)
    sum_blocks(F f, const T* x, std::int64_t n, double* block_sums) {
  const Source<T> source{x, x + n};
  const std::int64_t step = std::int64_t{gridDim.x} * threads * size;
  double sum = 0.0;
  std::int64_t first = (std::int64_t{blockIdx.x} * threads + threadIdx.x) * size;
  for (; first < n; first += chunks * step) {
    Chunk<T, size> chunk[chunks];
    int count[chunks];
#pragma unroll
    for (int c = 0; c < chunks; ++c) {
      const std::int64_t left = n - (first + c * step);
      count[c] = left >= size ? size : (left > 0 ? static_cast<int>(left) : 0);
      chunk[c] = source.template load<size>(first + c * step, count[c], T{});
    }
#pragma unroll
    for (int c = 0; c < chunks; ++c)
#pragma unroll
      for (int i = 0; i < size; ++i)
        if (i < count[c]) sum += f(widen(chunk[c].at[i]));
  }
  using Sums = BlockReduction<double, threads>;
  __shared__ typename Sums::Storage storage;
  sum = Sums(storage).on_first_thread(sum, Sum{});
  if (threadIdx.x == 0) block_sums[blockIdx.x] = sum;
}

__global__ void __launch_bounds__(threads) add_blocks(double* block_sums, int blocks) {
  double sum = 0.0;
  for (int i = static_cast<int>(threadIdx.x); i < blocks; i += threads) sum += block_sums[i];
  using Sums = BlockReduction<double, threads>;
  __shared__ Sums::Storage storage;
  sum = Sums(storage).on_first_thread(sum, Sum{});
  // The first element may be overwritten now, because every thread has read its elements and passed
  // its sum to the reduction.
  if (threadIdx.x == 0) block_sums[0] = sum;
}

/// Returns Σ f(x[i]) on the host; waits for the queue.
template <class F>
double sum_of(const char* name, Queue queue, View x, F f) {
  const std::int64_t n = arguments::one_view(name, x);
  if (n == 0) return 0.0;
  std::int64_t blocks = groups_of(std::int64_t{threads} * size * chunks, n);
  if (blocks > most_blocks) blocks = most_blocks;
  const Scratch<double> sums(queue, static_cast<std::size_t>(blocks));
  with_type_of(x.dtype, [&](auto type) {
    using T = Pointee<decltype(type)>;
    launch({name, queue, Grid{blocks}, dim3(threads)}, sum_blocks<T, F>, f, data_of<T>(x), n,
           sums.data());
  });
  launch({name, queue, Grid{1}, dim3(threads)}, add_blocks, sums.data(), static_cast<int>(blocks));
  double result = 0.0;
  LOCKSTEP_CUDA(cudaMemcpyAsync(&result, sums.data(), sizeof result, cudaMemcpyDeviceToHost,
                                stream_of(queue)));
  LOCKSTEP_CUDA(cudaStreamSynchronize(stream_of(queue)));
  return result;
}

double sum_of_squares(Queue queue, In x) {
  return sum_of("sum_of_squares", queue, x, Square{});
}

bool finite(Queue queue, In x) {
  return sum_of("finite", queue, x, NotFinite{}) == 0.0;
}

double sum(Queue queue, In x) {
  return sum_of("sum", queue, x, Value{});
}

}  // namespace

void set_reductions(Kernels& kernels) {
  kernels.sum_of_squares = sum_of_squares;
  kernels.finite = finite;
  kernels.sum = sum;
}

}  // namespace lockstep::cuda
