/// Sums over arrays in double, in an order that depends only on each array's number of elements:
/// chunk i goes to thread i modulo the array's number of threads; each thread adds its chunks in
/// ascending order; each block adds its threads' sums (reduce.cuh), and a second launch adds the
/// blocks' sums. Reads each element once and writes 8 bytes per block. Atomic additions would avoid
/// the second launch, but their order would be arbitrary.

#include "kernels/arguments.h"
#include "kernels/cuda/chunk.cuh"
#include "kernels/cuda/device_kernels.h"
#include "kernels/cuda/launch.cuh"
#include "kernels/cuda/reduce.cuh"
#include "kernels/cuda/tensor_list.cuh"

namespace lockstep::cuda {
namespace {

constexpr int sum_threads = 256;
constexpr int sum_size = 8;    // elements per chunk; the same for all types, to fix the order
constexpr int sum_chunks = 4;  // number of chunks that a thread loads before it adds
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

template <class T>
struct Summed {
  const T* x;
  std::int64_t n;
};
template <class T>
using SummedList = TensorList<Summed<T>, 128>;

template <class T, class F>
__global__ void __launch_bounds__(sum_threads)
    sum_blocks(F f, const __grid_constant__ SummedList<T> list, double* block_sums) {
  const int t = list.of_block(static_cast<int>(blockIdx.x));
  const std::int64_t n = list.tensors[t].n;
  const Source<T> source{list.tensors[t].x, list.tensors[t].x + n};
  const std::int64_t block = static_cast<int>(blockIdx.x) - list.first_block[t];
  const std::int64_t step =
      std::int64_t{list.first_block[t + 1] - list.first_block[t]} * sum_threads * sum_size;
  double sum = 0.0;
  std::int64_t first = (block * sum_threads + threadIdx.x) * sum_size;
  for (; first < n; first += sum_chunks * step) {
    Chunk<T, sum_size> chunk[sum_chunks];
    int count[sum_chunks];
#pragma unroll
    for (int c = 0; c < sum_chunks; ++c) {
      const std::int64_t left = n - (first + c * step);
      count[c] = left >= sum_size ? sum_size : (left > 0 ? static_cast<int>(left) : 0);
      chunk[c] = source.template load<sum_size>(first + c * step, count[c], T{});
    }
#pragma unroll
    for (int c = 0; c < sum_chunks; ++c)
      first_elements<sum_size>(count[c], [&](int i) { sum += f(widen(chunk[c].at(i))); });
  }
  using Sums = BlockReduction<double, sum_threads>;
  __shared__ typename Sums::Storage storage;
  sum = Sums(storage).on_first_thread(sum, Sum{});
  if (threadIdx.x == 0) block_sums[blockIdx.x] = sum;
}

/// Block t adds the sums of tensor t's blocks.
template <class T>
__global__ void __launch_bounds__(sum_threads)
    add_blocks(const __grid_constant__ SummedList<T> list, const double* block_sums, double* sums) {
  const auto t = static_cast<int>(blockIdx.x);
  const double* const from = block_sums + list.first_block[t];
  const int blocks = list.first_block[t + 1] - list.first_block[t];
  double sum = 0.0;
  for (int i = static_cast<int>(threadIdx.x); i < blocks; i += sum_threads) sum += from[i];
  using Sums = BlockReduction<double, sum_threads>;
  __shared__ typename Sums::Storage storage;
  sum = Sums(storage).on_first_thread(sum, Sum{});
  if (threadIdx.x == 0) sums[t] = sum;
}

/// Sums tensors [first, ...), all that fit in one list and have the first one's type. Returns the
/// index of the next tensor.
template <class F>
std::size_t sum_list(const char* name, Queue queue, const Ins& xs, std::size_t first, F f,
                     double* sums) {
  std::size_t end = first;
  with_type_of(xs[first].dtype, [&](auto type) {
    using T = Pointee<decltype(type)>;
    SummedList<T> list;
    for (; end < xs.size() && xs[end].dtype == xs[first].dtype; ++end) {
      const std::int64_t n = xs[end].elements();
      const std::int64_t blocks = groups_of(std::int64_t{sum_threads} * sum_size * sum_chunks, n);
      if (!list.add({data_of<T>(xs[end]), n}, blocks < most_blocks ? blocks : most_blocks)) break;
    }
    const Scratch<double> block_sums(queue, static_cast<std::size_t>(list.blocks()));
    launch({name, queue, Grid{list.blocks()}, dim3(sum_threads)}, sum_blocks<T, F>, f, list,
           block_sums.data());
    launch({name, queue, Grid{list.count}, dim3(sum_threads)}, add_blocks<T>, list,
           block_sums.data(), sums + first);
  });
  return end;
}

/// sums[i] = Σ f(x) over the elements x of xs[i].
template <class F>
void sum_each(const char* name, Queue queue, const Ins& xs, View sums, F f) {
  arguments::sums(name, xs, sums);
  for (std::size_t next = 0; next < xs.size();)
    next = sum_list(name, queue, xs, next, f, data_of<double>(sums));
}

}  // namespace

void set_reductions(Kernels& kernels) {
  kernels.sums = [](Queue queue, const Ins& xs, Out32 sums) {
    sum_each("sums", queue, xs, sums, Value{});
  };
  kernels.sums_of_squares = [](Queue queue, const Ins& xs, Out32 sums) {
    sum_each("sums_of_squares", queue, xs, sums, Square{});
  };
  kernels.counts_of_not_finite = [](Queue queue, const Ins& xs, Out32 sums) {
    sum_each("counts_of_not_finite", queue, xs, sums, NotFinite{});
  };
}

}  // namespace lockstep::cuda
