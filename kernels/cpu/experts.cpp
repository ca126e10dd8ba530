/// The router of a mixture of experts, and the movement of rows to and from the experts. The
/// router's arithmetic, on N E elements, is negligible beside the experts' products.

#include <fmt/format.h>

#include <algorithm>
#include <stdexcept>

#include "kernels/arguments.h"
#include "kernels/cpu/cpu_kernels.h"
#include "kernels/cpu/reduce.h"
#include "kernels/element.h"

namespace lockstep::cpu {
namespace {

/// Checks all indices before the kernel accesses memory: `least` .. end - 1 are valid.
void want_inside(const char* kernel, View indices, std::int64_t least, std::int64_t end) {
  for (std::int64_t i = 0; i < indices.elements(); ++i)
    if (indices.i32()[i] < least || indices.i32()[i] >= end)
      throw std::out_of_range(fmt::format("{}: index {} at {} is outside [{}, {})", kernel,
                                          indices.i32()[i], i, least, end));
}

void router_forward(Queue, In logits, Out32 probabilities, OutIndices experts, Out32 gaps) {
  const auto n = arguments::router_forward(logits, probabilities, experts, gaps);
  for (std::int64_t row = 0; row < n.rows; ++row) {
    float* const p = probabilities.f32() + row * n.experts;
    std::int32_t* const chosen = experts.i32() + row * n.k;
    element::softmax(logits.f32() + row * n.experts, n.experts, p);
    gaps.f32()[row] = element::top_k(p, n.experts, n.k, chosen);
  }
}

void router_backward(Queue, In32 probabilities, Indices experts, In32 dweights, In32 balance,
                     Out dlogits) {
  const auto n = arguments::router_backward(probabilities, experts, dweights, balance, dlogits);
  want_inside("router_backward", experts, 0, n.experts);
  for (std::int64_t row = 0; row < n.rows; ++row)
    element::router_gradient(
        probabilities.f32() + row * n.experts, experts.i32() + row * n.k,
        dweights.f32() + row * n.k, balance.f32(), n.experts, n.k,
        [&](std::int64_t i, float value) { dlogits.f32()[row * n.experts + i] = value; });
}

void gather_rows(Queue, In x, Indices rows, Out y) {
  const auto n = arguments::gather_rows(x, rows, y);
  want_inside("gather_rows", rows, 0, n.rows);
  for (std::int64_t i = 0; i < n.slots; ++i)
    std::copy_n(x.f32() + rows.i32()[i] * n.h, n.h, y.f32() + i * n.h);
}

void combine_rows(Queue, In x, Indices slots, In32 probabilities, Indices experts, Out y) {
  const auto n = arguments::combine_rows(x, slots, probabilities, experts, y);
  want_inside("combine_rows", slots, -1, n.slots);
  if (n.experts > 0) want_inside("combine_rows", experts, 0, n.experts);
  for (std::int64_t row = 0; row < n.rows; ++row) {
    float* const out = y.f32() + row * n.h;
    std::fill_n(out, n.h, 0.0F);
    for (std::int64_t j = 0; j < n.k; ++j) {
      const std::int32_t slot = slots.i32()[row * n.k + j];
      if (slot < 0) continue;
      const float* const in = x.f32() + slot * n.h;
      const float weight =
          n.experts == 0 ? 1.0F
                         : probabilities.f32()[row * n.experts + experts.i32()[row * n.k + j]];
#pragma GCC ivdep
      for (std::int64_t i = 0; i < n.h; ++i) out[i] += weight * in[i];
    }
  }
}

void combine_rows_backward(Queue, In dy, In x, Indices slots, In32 probabilities, Indices experts,
                           Out dx, Out32 dweights) {
  const auto n =
      arguments::combine_rows_backward(dy, x, slots, probabilities, experts, dx, dweights);
  want_inside("combine_rows_backward", slots, -1, n.slots);
  want_inside("combine_rows_backward", experts, 0, n.experts);
  for (std::int64_t row = 0; row < n.rows; ++row) {
    const float* const in = dy.f32() + row * n.h;
    for (std::int64_t j = row * n.k; j < (row + 1) * n.k; ++j) {
      const std::int32_t slot = slots.i32()[j];
      dweights.f32()[j] = 0;
      if (slot < 0) continue;
      const float* const expert = x.f32() + slot * n.h;
      dweights.f32()[j] = lane_sum(n.h, [&](std::int64_t i) { return in[i] * expert[i]; });
      const float weight = probabilities.f32()[row * n.experts + experts.i32()[j]];
      float* const out = dx.f32() + slot * n.h;
#pragma GCC ivdep
      for (std::int64_t i = 0; i < n.h; ++i) out[i] = weight * in[i];
    }
  }
}

}  // namespace

void set_experts(Kernels& kernels) {
  kernels.router_forward = router_forward;
  kernels.router_backward = router_backward;
  kernels.gather_rows = gather_rows;
  kernels.combine_rows = combine_rows;
  kernels.combine_rows_backward = combine_rows_backward;
}

}  // namespace lockstep::cpu
