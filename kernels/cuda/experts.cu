/// The router of a mixture of experts, and the movement of rows to and from the experts.
///
/// The router uses one thread per row: its N E elements are negligible beside the N h elements that
/// move. gather_rows and combine_rows use one block per row, combine_rows_backward one per choice.
/// combine_rows writes each row once, after reading its k rows in order, so no atomics are needed
/// and the results do not depend on the order in which blocks run.

#include "kernels/arguments.h"
#include "kernels/check.h"
#include "kernels/cuda/chunk.cuh"
#include "kernels/cuda/device_kernels.h"
#include "kernels/cuda/launch.cuh"
#include "kernels/cuda/reduce.cuh"
#include "kernels/element.h"

namespace lockstep::cuda {
namespace {

constexpr int expert_threads = 128;

template <class T>
__global__ void __launch_bounds__(expert_threads)
    router_kernel(const T* logits, float* probabilities, std::int32_t* experts, float* gaps,
                  arguments::Experts n) {
  const std::int64_t row = std::int64_t{blockIdx.x} * expert_threads + threadIdx.x;
  if (row >= n.rows) return;
  float* const p = probabilities + row * n.experts;
  for (std::int64_t i = 0; i < n.experts; ++i) p[i] = widen(logits[row * n.experts + i]);
  element::softmax(p, n.experts, p);
  gaps[row] = element::top_k(p, n.experts, n.k, experts + row * n.k);
}

template <class T>
__global__ void __launch_bounds__(expert_threads)
    router_backward_kernel(const float* probabilities, const std::int32_t* experts,
                           const float* dweights, const float* balance, T* dlogits,
                           arguments::Experts n) {
  const std::int64_t row = std::int64_t{blockIdx.x} * expert_threads + threadIdx.x;
  if (row >= n.rows) return;
  T* const out = dlogits + row * n.experts;
  element::router_gradient(probabilities + row * n.experts, experts + row * n.k,
                           dweights + row * n.k, balance, n.experts, n.k,
                           [=](std::int64_t i, float value) { out[i] = rounded<T>(value); });
}

template <class T>
__global__ void __launch_bounds__(expert_threads)
    gather_kernel(const T* x, const std::int32_t* rows, T* y, arguments::Experts n) {
  constexpr int size = per_vector<T>;
  T* const to = y + std::int64_t{blockIdx.x} * n.h;
  const auto from = Rows<const T>{x, n.h}.row(rows[blockIdx.x], n.h);
  for (std::int64_t i = threadIdx.x; i * size < n.h + size - 1; i += expert_threads) {
    const Cut cut = Cut::chunk<size>(i, to, n.h);
    store(to + cut.first, from.template load<size>(cut.first, cut.count, T{}), cut.count);
  }
}

/// The weight of a row's j-th choice. `probabilities` may be null.
__device__ float weight_of(const float* probabilities, const std::int32_t* experts,
                           std::int64_t row, std::int64_t j, const arguments::Experts& n) {
  return probabilities == nullptr ? 1.0F : probabilities[row * n.experts + experts[row * n.k + j]];
}

template <class T>
__global__ void __launch_bounds__(expert_threads)
    combine_kernel(const T* x, const std::int32_t* slots, const float* probabilities,
                   const std::int32_t* experts, T* y, arguments::Experts n) {
  constexpr int size = per_vector<T>;
  const std::int64_t row = blockIdx.x;
  T* const to = y + row * n.h;
  for (std::int64_t i = threadIdx.x; i * size < n.h + size - 1; i += expert_threads) {
    const Cut cut = Cut::chunk<size>(i, to, n.h);
    float sum[size] = {};
    for (std::int64_t j = 0; j < n.k; ++j) {
      const std::int32_t slot = slots[row * n.k + j];
      if (slot < 0) continue;
      const float weight = weight_of(probabilities, experts, row, j, n);
      const auto part =
          Rows<const T>{x, n.h}.row(slot, n.h).template load<size>(cut.first, cut.count, T{});
#pragma unroll
      for (int c = 0; c < size; ++c) sum[c] += weight * widen(part.at(c));
    }
    store(to + cut.first, rounded_chunk<T, size>([&](int c) { return sum[c]; }), cut.count);
  }
}

/// One block per choice (row, j). Each thread takes elements one by one, `threads` apart: if it
/// took aligned chunks, the order of the sum would depend on the address.
template <class T>
__global__ void __launch_bounds__(expert_threads)
    combine_backward_kernel(const T* dy, const T* x, const std::int32_t* slots,
                            const float* probabilities, const std::int32_t* experts, T* dx,
                            float* dweights, arguments::Experts n) {
  using Summed = BlockReduction<float, expert_threads>;
  __shared__ typename Summed::Storage storage;
  const std::int64_t row = blockIdx.x / n.k, j = blockIdx.x % n.k;
  const std::int32_t slot = slots[row * n.k + j];
  float dot = 0.0F;
  if (slot >= 0) {
    const float weight = weight_of(probabilities, experts, row, j, n);
    const T *const upstream = dy + row * n.h, *const output = x + slot * n.h;
    T* const to = dx + slot * n.h;
    for (std::int64_t i = threadIdx.x; i < n.h; i += expert_threads) {
      const float up = widen(upstream[i]);
      dot += up * widen(output[i]);
      to[i] = rounded<T>(weight * up);
    }
  }
  const float sum = Summed(storage).on_first_thread(dot, [](float a, float b) { return a + b; });
  if (threadIdx.x == 0) dweights[blockIdx.x] = sum;
}

void router_forward(Queue queue, In logits, Out32 probabilities, OutIndices experts, Out32 gaps) {
  const auto n = arguments::router_forward(logits, probabilities, experts, gaps);
  with_type_of(logits.dtype, [&](auto type) {
    using T = Pointee<decltype(type)>;
    launch({"router_forward", queue, Grid{groups_of(expert_threads, n.rows)}, dim3(expert_threads)},
           router_kernel<T>, data_of<T>(logits), probabilities.f32(), experts.i32(), gaps.f32(), n);
  });
}

void router_backward(Queue queue, In32 probabilities, Indices experts, In32 dweights, In32 balance,
                     Out dlogits) {
  const auto n = arguments::router_backward(probabilities, experts, dweights, balance, dlogits);
  with_type_of(dlogits.dtype, [&](auto type) {
    using T = Pointee<decltype(type)>;
    launch(
        {"router_backward", queue, Grid{groups_of(expert_threads, n.rows)}, dim3(expert_threads)},
        router_backward_kernel<T>, probabilities.f32(), experts.i32(), dweights.f32(),
        balance.f32(), data_of<T>(dlogits), n);
  });
}

void gather_rows(Queue queue, In x, Indices rows, Out y) {
  const auto n = arguments::gather_rows(x, rows, y);
  with_type_of(x.dtype, [&](auto type) {
    using T = Pointee<decltype(type)>;
    launch({"gather_rows", queue, Grid{n.slots}, dim3(expert_threads)}, gather_kernel<T>,
           data_of<T>(x), rows.i32(), data_of<T>(y), n);
  });
}

void combine_rows(Queue queue, In x, Indices slots, In32 probabilities, Indices experts, Out y) {
  const auto n = arguments::combine_rows(x, slots, probabilities, experts, y);
  with_type_of(y.dtype, [&](auto type) {
    using T = Pointee<decltype(type)>;
    launch({"combine_rows", queue, Grid{n.rows}, dim3(expert_threads)}, combine_kernel<T>,
           data_of<T>(x), slots.i32(), n.experts == 0 ? nullptr : probabilities.f32(),
           experts.i32(), data_of<T>(y), n);
  });
}

void combine_rows_backward(Queue queue, In dy, In x, Indices slots, In32 probabilities,
                           Indices experts, Out dx, Out32 dweights) {
  const auto n =
      arguments::combine_rows_backward(dy, x, slots, probabilities, experts, dx, dweights);
  with_type_of(dy.dtype, [&](auto type) {
    using T = Pointee<decltype(type)>;
    launch({"combine_rows_backward", queue, Grid{n.rows * n.k}, dim3(expert_threads)},
           combine_backward_kernel<T>, data_of<T>(dy), data_of<T>(x), slots.i32(),
           probabilities.f32(), experts.i32(), data_of<T>(dx), dweights.f32(), n);
  });
}

}  // namespace

void set_experts(Kernels& kernels) {
  kernels.router_forward = router_forward;
  kernels.router_backward = router_backward;
  kernels.gather_rows = gather_rows;
  kernels.combine_rows = combine_rows;
  kernels.combine_rows_backward = combine_rows_backward;
}

}  // namespace lockstep::cuda
