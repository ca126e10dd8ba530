/// Causal attention on CUDA.
///
/// The algorithm is FlashAttention (Dao 2022) and FlashAttention-2 (Dao 2023). Reading order:
///
///     attention_f32_forward.cu    the idea, in plain CUDA: tiles, online softmax
///     attention_f32_backward.cu   backward, also in plain CUDA
///     attention_tile.cuh          tiles and products on tensor cores
///     attention_forward.cu        forward for bf16 and f16
///     attention_backward.cu       backward for bf16 and f16
///     attention_block.cuh         attention to a part of the keys, for all types
///
/// A head may have at most 128 columns; a larger head throws std::invalid_argument. The backward
/// pass allocates 4 bytes per row and head from the stream-ordered pool, and frees that memory on
/// the same queue.
///
/// Every sum has a fixed order that depends only on s and the head size. No kernel uses atomics.
/// Results are therefore bitwise identical in every run, for any alignment of the views and any
/// batch size.

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <initializer_list>
#include <limits>
#include <stdexcept>

#include "kernels/arguments.h"
#include "kernels/cuda/attention_problem.cuh"
#include "kernels/cuda/check.h"
#include "kernels/cuda/device_kernels.h"

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
  // Rows are counted in 32 bits, which suffices because no GPU has memory for 2^31 rows.
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
          aligned(views, n.d),
          static_cast<int>(n.heads / n.groups)};
}

void attention_forward(Queue queue, In q, In k, In v, int heads, Out y, Out32 lse,
                       Out32 probabilities) {
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

void attention_backward(Queue queue, In dy, In q, In k, In v, In y, In32 lse, In32 probabilities,
                        int heads, Out dq, Out dk, Out dv) {
  const arguments::Attention sizes =
      arguments::attention_backward(dy, q, k, v, y, lse, probabilities, heads, dq, dk, dv);
  const Problem n = problem("attention_backward", sizes, {dy, q, k, v, y, dq, dk, dv});
  if (q.elements() == 0) return;
  const Scratch<float> dots(queue, static_cast<std::size_t>(sizes.b * sizes.heads * sizes.s));
  attention_dots(queue, n, dy, y, dots.data());
  (is_narrow(q.dtype) ? attention_backward_narrow : attention_backward_f32)(
      queue, n, dy, q, k, v, lse, sizes.probabilities ? View{probabilities} : View{}, dots.data(),
      dq, dk, dv);
}

void block_forward(Queue queue, In q, In k, In v, int heads, const AttentionBlock& block,
                   Indices visible, Out y, Out32 lse) {
  const auto sizes = arguments::attention_block_forward(q, k, v, heads, block, visible, y, lse);
  const Problem n = problem("attention_block_forward", sizes, {q, k, v, y});
  if (y.elements() == 0) return;
  attention_block_forward(queue, n, block, visible, q, k, v, y, lse);
}

void merge(Queue queue, In y_part, In32 lse_part, int heads, std::int64_t first, InOut y,
           InOut32 lse) {
  const auto sizes = arguments::attention_merge(y_part, lse_part, heads, first, y, lse);
  const Problem n = problem("attention_merge", sizes, {y_part, y});
  if (y_part.elements() == 0) return;
  attention_merge(queue, n, y_part, lse_part, first, y, lse);
}

void block_backward(Queue queue, In dy, In q, In k, In v, In y, In32 lse, int heads,
                    const AttentionBlock& block, Indices visible, InOut dq, InOut dk, InOut dv) {
  arguments::Attention sizes =
      arguments::attention_block_backward(dy, q, k, v, y, lse, heads, block, visible, dq, dk, dv);
  sizes.s = q.shape[1];  // dots are computed for all rows
  const Problem n = problem("attention_block_backward", sizes, {dy, q, k, v, y, dq, dk, dv});
  if (sizes.b * block.queries == 0) return;
  const Scratch<float> dots(queue, static_cast<std::size_t>(sizes.b * sizes.heads * sizes.s));
  attention_dots(queue, n, dy, y, dots.data());
  attention_block_backward(queue, n, block, visible, dy, q, k, v, lse, dots.data(), dq, dk, dv);
}

}  // namespace

void set_attention(Kernels& kernels) {
  kernels.attention_forward = attention_forward;
  kernels.attention_backward = attention_backward;
  kernels.attention_block_forward = block_forward;
  kernels.attention_merge = merge;
  kernels.attention_block_backward = block_backward;
}

}  // namespace lockstep::cuda
