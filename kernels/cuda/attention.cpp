#include "kernels/cuda/attention.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <initializer_list>
#include <limits>
#include <stdexcept>

#include "kernels/arguments.h"
#include "kernels/cuda/attention_problem.cuh"
#include "kernels/cuda/check.h"

namespace lockstep::cuda {
namespace {

/// Returns whether every row of every head can be accessed in 16-byte and 8-element pieces.
bool aligned(std::initializer_list<View> views, std::int64_t d) {
  for (const View& view : views) {
    const auto bytes = static_cast<std::int64_t>(size_of(view.dtype));
    if (d % 8 != 0 || view.row_stride * bytes % 16 != 0 ||
        reinterpret_cast<std::uintptr_t>(view.data) % 16 != 0)
      return false;
  }
  return true;
}

Problem problem(const char* kernel, const arguments::Attention& n,
                std::initializer_list<View> views) {
  if (n.d > widest_head)
    throw std::invalid_argument(
        fmt::format("{}: heads of {} columns; on CUDA a head has at most {} (more heads make them "
                    "narrower)",
                    kernel, n.d, widest_head));
  // Rows are counted in 32 bits: a GPU does not have the memory for 2^31 of them.
  std::int64_t largest = n.b * n.heads * n.s;
  for (const View& view : views) largest = std::max(largest, view.row_stride);
  if (largest > std::numeric_limits<int>::max())
    throw std::invalid_argument(
        fmt::format("{}: b {}, s {}, {} heads of {} are more than a GPU holds", kernel, n.b, n.s,
                    n.heads, n.d));
  return {static_cast<int>(n.s),
          static_cast<int>(n.d),
          static_cast<int>(n.heads),
          static_cast<int>(n.b * n.heads),
          n.scale,
          aligned(views, n.d)};
}

}  // namespace

void attention_forward(Queue queue, View q, View k, View v, int heads, View y, View lse,
                       View probabilities) {
  const arguments::Attention sizes =
      arguments::attention_forward(q, k, v, heads, y, lse, probabilities);
  const Problem n = problem("attention_forward", sizes, {q, k, v, y});
  if (q.elements() == 0) return;
  const bool narrow = is_narrow(q.dtype);
  (narrow ? attention_forward_narrow : attention_forward_f32)(queue, n, q, k, v, y, lse);
  if (sizes.probabilities)
    (narrow ? attention_probabilities_narrow : attention_probabilities_f32)(queue, n, q, k, lse,
                                                                            probabilities);
}

void attention_backward(Queue queue, View dy, View q, View k, View v, View y, View lse,
                        View probabilities, int heads, View dq, View dk, View dv) {
  const arguments::Attention sizes =
      arguments::attention_backward(dy, q, k, v, y, lse, probabilities, heads, dq, dk, dv);
  const Problem n = problem("attention_backward", sizes, {dy, q, k, v, y, dq, dk, dv});
  if (q.elements() == 0) return;
  const Scratch<float> dots(queue, static_cast<std::size_t>(sizes.b * sizes.heads * sizes.s));
  attention_dots(queue, n, dy, y, dots.data());
  (is_narrow(q.dtype) ? attention_backward_narrow : attention_backward_f32)(
      queue, n, dy, q, k, v, lse, sizes.probabilities ? probabilities : View{}, dots.data(), dq, dk,
      dv);
}

}  // namespace lockstep::cuda
