/// Softmax and the target's negative log-likelihood, with one block per row.
///
/// The forward pass reads the N V logits once: each thread keeps a running maximum and the sum of
/// exponentials relative to that maximum (online softmax, Milakov & Gimelshein 2018), and the block
/// merges its threads' results. The backward pass needs only lse from the forward pass; it reads
/// the logits once and writes the same number of elements. There may be gaps between rows: a
/// vocabulary of 50257 is padded so that each row is aligned. Unaligned rows are also read and
/// written 16 bytes at a time (chunk.cuh).
///
/// Exponentials use the hardware's approximation of 2^x, which takes fewer instructions than an
/// exact one. The relative error is about 1e-6 for terms that matter. The terms' errors are
/// independent, so the relative error of the sum is smaller.

#include "kernels/arguments.h"
#include "kernels/check.h"
#include "kernels/cuda/chunk.cuh"
#include "kernels/cuda/device_kernels.h"
#include "kernels/cuda/launch.cuh"
#include "kernels/cuda/reduce.cuh"
#include "kernels/element.h"

namespace lockstep::cuda {
namespace {

constexpr int loss_threads = 512;
constexpr int loss_chunks = 4;  // number of chunks that a thread loads before it computes

__device__ bool inside(std::int32_t target, int vocabulary) {
  return target >= 0 && target < vocabulary;
}

__device__ float exp_approximate(float x) {
  return ptx::exp2_approximate(x * element::log2_e);
}

/// Merges a chunk into `part`. A logit of -∞ has probability zero, and a NaN makes the sum NaN.
template <bool whole, class T, int size>
__device__ element::SoftmaxPart take(element::SoftmaxPart part, const Chunk<T, size>& chunk,
                                     int count) {
  float largest = part.maximum;
  first_elements<size, whole>(count, [&](int i) { largest = fmaxf(largest, widen(chunk.at(i))); });
  // If all logits so far are -∞, subtract 0 instead of the maximum.
  const float shift = largest == -INFINITY ? 0.0F : largest;
  float sum = part.sum * exp_approximate(part.maximum - shift);
  first_elements<size, whole>(count,
                              [&](int i) { sum += exp_approximate(widen(chunk.at(i)) - shift); });
  return {largest, sum};
}

/// Computes the softmax statistics of the first `count` logits of a row, with all of the block's
/// threads. The result is on the first thread. If rows are aligned, only the last chunk may be
/// partial, and the thread to which it belongs takes it after its other chunks.
template <class T, bool aligned>
__device__ element::SoftmaxPart part_of_row(const T* in, int count) {
  using Merged = BlockReduction<element::SoftmaxPart, loss_threads>;
  __shared__ typename Merged::Storage storage;
  constexpr int size = per_vector<T>;
  const int end = aligned ? count / size * size : count;
  const Source<T, aligned> source{in, in + end};

  element::SoftmaxPart part;
  for (int first = static_cast<int>(threadIdx.x) * size; first < end;
       first += loss_chunks * loss_threads * size) {
    Chunk<T, size> chunk[loss_chunks];
    int here[loss_chunks];
#pragma unroll
    for (int c = 0; c < loss_chunks; ++c) {
      const int left = end - (first + c * loss_threads * size);
      here[c] = left >= size ? size : (left > 0 ? left : 0);
      chunk[c] = source.template load<size>(first + c * loss_threads * size, here[c], T{});
    }
#pragma unroll
    for (int c = 0; c < loss_chunks; ++c)
      if (here[c] > 0) part = take<aligned>(part, chunk[c], here[c]);
  }
  if (end < count && end / size % loss_threads == static_cast<int>(threadIdx.x)) {
    const Source<T> rest{in, in + count};
    part = take<false>(part, rest.template load<size>(end, count - end, T{}), count - end);
  }
  return Merged(storage).on_first_thread(
      part,
      [](const element::SoftmaxPart& a, const element::SoftmaxPart& b) { return merge(a, b); });
}

template <class T, bool aligned>
__global__ void __launch_bounds__(loss_threads)
    loss_kernel(Rows<const T> logits, const std::int32_t* targets, float* losses, float* lse,
                int vocabulary) {
  const std::int64_t row = blockIdx.x;
  const T* const in = logits.data + row * logits.stride;
  const element::SoftmaxPart part = part_of_row<T, aligned>(in, vocabulary);
  if (threadIdx.x != 0) return;
  const float log_sum = logf(part.sum);
  const std::int32_t target = targets[row];
  lse[row] = part.maximum + log_sum;
  // Not computed as lse - logit, because for logits near 1e4 that difference of two large rounded
  // numbers is mostly noise.
  losses[row] = inside(target, vocabulary) ? log_sum + (part.maximum - widen(in[target]))
                                           : element::from_bits(0x7fc00000U);
}

template <class T, bool aligned>
__global__ void __launch_bounds__(loss_threads)
    part_forward_kernel(Rows<const T> logits, const std::int32_t* targets, float* statistics,
                        VocabularyPart part) {
  const std::int64_t row = blockIdx.x, rows = gridDim.x;
  const T* const in = logits.data + row * logits.stride;
  const element::SoftmaxPart mine = part_of_row<T, aligned>(in, static_cast<int>(part.count));
  if (threadIdx.x != 0) return;
  const std::int64_t target = targets[row] - part.first;
  statistics[row] = mine.maximum;
  statistics[rows + row] = mine.sum;
  statistics[2 * rows + row] = target >= 0 && target < part.count ? widen(in[target]) : 0.0F;
}

/// One thread per row.
__global__ void __launch_bounds__(loss_threads)
    merge_kernel(const float* statistics, float* losses, float* lse, arguments::Matrix n) {
  const std::int64_t row = std::int64_t{blockIdx.x} * loss_threads + threadIdx.x;
  if (row >= n.columns) return;
  element::SoftmaxPart whole;
  float target_logit = 0.0F;
  for (std::int64_t rank = 0; rank < n.rows; ++rank) {
    const float* const of_rank = statistics + 3 * rank * n.columns + row;
    whole = merge(whole, {of_rank[0], of_rank[n.columns]});
    target_logit += of_rank[2 * n.columns];
  }
  const float log_sum = logf(whole.sum);
  lse[row] = whole.maximum + log_sum;
  losses[row] = log_sum + (whole.maximum - target_logit);
}

/// Columns from `part.count` on are padding. If rows are aligned, only the last chunk may be
/// partial.
template <class T, bool aligned>
__global__ void __launch_bounds__(loss_threads)
    backward_kernel(Rows<const T> logits, const std::int32_t* targets, const float* lse,
                    float scale, Rows<T> dlogits, VocabularyPart part, int columns) {
  constexpr int size = per_vector<T>;
  const std::int64_t row = blockIdx.x;
  T* const out = dlogits.data + row * dlogits.stride;
  const T* const in = logits.data + row * logits.stride;
  const float log_sum = lse[row];
  const std::int64_t target = targets[row] - part.first;

  const auto gradients = [&](const Chunk<T, size>& x, std::int64_t first) {
    const auto probability = [&](int i) { return exp_approximate(widen(x.at(i)) - log_sum); };
    const std::int64_t hit = target - first, known = part.count - first;
    if ((hit < 0 || hit >= size) && known >= size)
      return rounded_chunk<T, size>([&](int i) { return probability(i) * scale; });
    return rounded_chunk<T, size>([&](int i) {
      const float gradient = (probability(i) - (i == hit ? 1.0F : 0.0F)) * scale;
      return i < known ? gradient : 0.0F;
    });
  };

  const int even = aligned ? columns / size * size : columns;
  const Source<T, aligned> source{in, in + even};
  const int end = aligned ? even : columns + size - 1;  // alignment may add one chunk
  for (std::int64_t chunk = threadIdx.x; chunk * size < end; chunk += loss_chunks * loss_threads) {
    Cut cut[loss_chunks];
    Chunk<T, size> x[loss_chunks];
#pragma unroll
    for (int c = 0; c < loss_chunks; ++c) {
      cut[c] = Cut::chunk<size, aligned>(chunk + c * loss_threads, out, even);
      x[c] = source.template load<size>(cut[c].first, cut[c].count, T{});
    }
#pragma unroll
    for (int c = 0; c < loss_chunks; ++c)
      store<aligned>(out + cut[c].first, gradients(x[c], cut[c].first), cut[c].count);
  }
  if (even < columns && threadIdx.x == 0) {
    const Source<T> rest{in, in + columns};
    const auto x = rest.template load<size>(even, columns - even, T{});
    store(out + even, gradients(x, even), columns - even);
  }
}

void cross_entropy_forward(Queue queue, In logits, Indices targets, Out32 losses, Out32 lse) {
  const auto n = arguments::cross_entropy_forward(logits, targets, losses, lse);
  with_type_of(logits.dtype, [&](auto type) {
    using T = Pointee<decltype(type)>;
    with(rows_of<T>(logits).aligned(), [&](auto aligned) {
      launch({"cross_entropy_forward", queue, Grid{n.rows}, dim3(loss_threads)},
             loss_kernel<T, aligned>, rows_of<const T>(logits), targets.i32(), losses.f32(),
             lse.f32(), static_cast<int>(n.columns));
    });
  });
}

void cross_entropy_part_forward(Queue queue, In logits, Indices targets, VocabularyPart part,
                                Out32 statistics) {
  constexpr const char* name = "cross_entropy_part_forward";
  const auto n = arguments::cross_entropy_part_forward(logits, targets, part, statistics);
  with_type_of(logits.dtype, [&](auto type) {
    using T = Pointee<decltype(type)>;
    with(rows_of<T>(logits).aligned(), [&](auto aligned) {
      launch({name, queue, Grid{n.rows}, dim3(loss_threads)}, part_forward_kernel<T, aligned>,
             rows_of<const T>(logits), targets.i32(), statistics.f32(), part);
    });
  });
}

void cross_entropy_merge(Queue queue, In32 statistics, Out32 losses, Out32 lse) {
  const auto n = arguments::cross_entropy_merge(statistics, losses, lse);
  launch(
      {"cross_entropy_merge", queue, Grid{groups_of(loss_threads, n.columns)}, dim3(loss_threads)},
      merge_kernel, statistics.f32(), losses.f32(), lse.f32(), n);
}

void backward(const char* name, Queue queue, In logits, Indices targets, VocabularyPart part,
              In32 lse, float scale, Out dlogits, arguments::Matrix n) {
  want_one_type(name, {{"logits", logits}, {"dlogits", dlogits}});
  with_type_of(logits.dtype, [&](auto type) {
    using T = Pointee<decltype(type)>;
    with(rows_of<T>(logits).aligned() && rows_of<T>(dlogits).aligned(), [&](auto aligned) {
      launch({name, queue, Grid{n.rows}, dim3(loss_threads)}, backward_kernel<T, aligned>,
             rows_of<const T>(logits), targets.i32(), lse.f32(), scale, rows_of<T>(dlogits), part,
             static_cast<int>(n.columns));
    });
  });
}

void cross_entropy_backward(Queue queue, In logits, Indices targets, In32 lse, float scale,
                            Out dlogits) {
  const auto n = arguments::cross_entropy_backward(logits, targets, lse, dlogits);
  backward("cross_entropy_backward", queue, logits, targets, {0, n.columns}, lse, scale, dlogits,
           n);
}

void cross_entropy_part_backward(Queue queue, In logits, Indices targets, VocabularyPart part,
                                 In32 lse, float scale, Out dlogits) {
  const auto n = arguments::cross_entropy_part_backward(logits, targets, part, lse, dlogits);
  backward("cross_entropy_part_backward", queue, logits, targets, part, lse, scale, dlogits, n);
}

}  // namespace

void set_cross_entropy(Kernels& kernels) {
  kernels.cross_entropy_forward = cross_entropy_forward;
  kernels.cross_entropy_backward = cross_entropy_backward;
  kernels.cross_entropy_part_forward = cross_entropy_part_forward;
  kernels.cross_entropy_merge = cross_entropy_merge;
  kernels.cross_entropy_part_backward = cross_entropy_part_backward;
}

}  // namespace lockstep::cuda
