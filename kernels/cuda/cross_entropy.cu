/// Softmax and the target's negative log-likelihood, with one block per row.
///
/// The forward pass reads the N V logits once: each thread keeps a running maximum and the sum of
/// exponentials relative to that maximum (online softmax, Milakov & Gimelshein 2018), and the block
/// merges its threads' results. The backward pass needs only lse from the forward pass; it reads
/// the logits once and writes the same number of elements. With a vocabulary of 50257 nearly every
/// row is unaligned, but is still read and written 16 bytes at a time (chunk.cuh).
///
/// Exponentials use the hardware approximation: computing an exact exponential takes as long as
/// moving ten bytes. The relative error is about 1e-6 for terms that matter. The terms' errors are
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

constexpr int threads = 512;
constexpr int chunks = 4;  // number of chunks that a thread loads before it computes

__device__ bool inside(std::int32_t target, int vocabulary) {
  return target >= 0 && target < vocabulary;
}

/// Merges a chunk into `part`. A logit of -∞ has probability zero, and a NaN makes the sum NaN.
template <class T, int size>
__device__ element::SoftmaxPart take(element::SoftmaxPart part, const Chunk<T, size>& chunk,
                                     int count) {
  float largest = part.maximum;
#pragma unroll
  for (int i = 0; i < size; ++i)
    if (i < count) largest = fmaxf(largest, widen(chunk.at[i]));
  // If all logits so far are -∞, subtract 0 instead of the maximum.
  const float shift = largest == -INFINITY ? 0.0F : largest;
  float sum = part.sum * __expf(part.maximum - shift);
#pragma unroll
  for (int i = 0; i < size; ++i)
    if (i < count) sum += __expf(widen(chunk.at[i]) - shift);
  return {largest, sum};
}

template <class T>
__global__ void __launch_bounds__(threads)
    forward_kernel(const T* logits, const std::int32_t* targets, float* losses, float* lse,
                   int vocabulary) {
  using Merged = BlockReduction<element::SoftmaxPart, threads>;
  __shared__ typename Merged::Storage storage;
  constexpr int size = per_vector<T>;
  const std::int64_t row = blockIdx.x;
  const T* const in = logits + row * vocabulary;
  const Source<T> source{in, in + vocabulary};

  element::SoftmaxPart part;
  for (int first = static_cast<int>(threadIdx.x) * size; first < vocabulary;
       first += chunks * threads * size) {
    Chunk<T, size> chunk[chunks];
    int count[chunks];
#pragma unroll
    for (int c = 0; c < chunks; ++c) {
      const int left = vocabulary - (first + c * threads * size);
      count[c] = left >= size ? size : (left > 0 ? left : 0);
      chunk[c] = source.template load<size>(first + c * threads * size, count[c], T{});
    }
#pragma unroll
    for (int c = 0; c < chunks; ++c)
      if (count[c] > 0) part = take(part, chunk[c], count[c]);
  }
  part = Merged(storage).on_first_thread(
      part,
      [](const element::SoftmaxPart& a, const element::SoftmaxPart& b) { return merge(a, b); });
  if (threadIdx.x != 0) return;
  const float log_sum = logf(part.sum);
  const std::int32_t target = targets[row];
  lse[row] = part.maximum + log_sum;
  // Not computed as lse - logit, because for logits near 1e4 that difference of two large rounded
  // numbers is mostly noise.
  losses[row] = inside(target, vocabulary) ? log_sum + (part.maximum - widen(in[target]))
                                           : element::from_bits(0x7fc00000U);
}

template <class T>
__global__ void __launch_bounds__(threads)
    backward_kernel(const T* logits, const std::int32_t* targets, const float* lse, float scale,
                    T* dlogits, int vocabulary) {
  constexpr int size = per_vector<T>;
  const std::int64_t row = blockIdx.x;
  const T* const in = logits + row * vocabulary;
  T* const out = dlogits + row * vocabulary;
  const Source<T> source{in, in + vocabulary};
  const float log_sum = lse[row];
  const std::int32_t target = targets[row];

  const std::int64_t end = vocabulary + size - 1;  // alignment may add one chunk
  for (std::int64_t chunk = threadIdx.x; chunk * size < end; chunk += chunks * threads) {
    Cut cut[chunks];
    Chunk<T, size> x[chunks];
#pragma unroll
    for (int c = 0; c < chunks; ++c) {
      cut[c] = Cut::chunk<size>(chunk + c * threads, out, vocabulary);
      x[c] = source.template load<size>(cut[c].first, cut[c].count, T{});
    }
#pragma unroll
    for (int c = 0; c < chunks; ++c) {
      Chunk<T, size> dx;
#pragma unroll
      for (int i = 0; i < size; ++i) {
        const float hit = cut[c].first + i == target ? 1.0F : 0.0F;
        dx.at[i] = rounded<T>((__expf(widen(x[c].at[i]) - log_sum) - hit) * scale);
      }
      store(out + cut[c].first, dx, cut[c].count);
    }
  }
}

void cross_entropy_forward(Queue queue, In logits, Indices targets, Out32 losses, Out32 lse) {
  const auto n = arguments::cross_entropy_forward(logits, targets, losses, lse);
  with_type_of(logits.dtype, [&](auto type) {
    using T = Pointee<decltype(type)>;
    launch({"cross_entropy_forward", queue, dim3(static_cast<unsigned>(n.rows)), dim3(threads)},
           forward_kernel<T>, data_of<T>(logits), targets.i32(), losses.f32(), lse.f32(),
           static_cast<int>(n.columns));
  });
}

void cross_entropy_backward(Queue queue, In logits, Indices targets, In32 lse, float scale,
                            Out dlogits) {
  const auto n = arguments::cross_entropy_backward(logits, targets, lse, dlogits);
  want_one_type("cross_entropy_backward", {{"logits", logits}, {"dlogits", dlogits}});
  with_type_of(logits.dtype, [&](auto type) {
    using T = Pointee<decltype(type)>;
    launch({"cross_entropy_backward", queue, dim3(static_cast<unsigned>(n.rows)), dim3(threads)},
           backward_kernel<T>, data_of<T>(logits), targets.i32(), lse.f32(), scale,
           data_of<T>(dlogits), static_cast<int>(n.columns));
  });
}

}  // namespace

void set_cross_entropy(Kernels& kernels) {
  kernels.cross_entropy_forward = cross_entropy_forward;
  kernels.cross_entropy_backward = cross_entropy_backward;
}

}  // namespace lockstep::cuda
