/// Softmax and the target's negative log-likelihood, row by row, for a vocabulary of size V.
///
/// The forward pass reads the N V logits once: it processes a row in blocks, each with its own
/// maximum, and merges the blocks with an online softmax, so a row larger than the cache is not
/// read twice. The backward pass needs only lse from the forward pass, and moves 2 N V elements.

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <stdexcept>

#include "kernels/arguments.h"
#include "kernels/cpu/cpu_kernels.h"
#include "kernels/cpu/reduce.h"
#include "kernels/element.h"

namespace lockstep::cpu {
namespace {

void want_targets(const char* kernel, View targets, std::int64_t vocabulary) {
  for (std::int64_t row = 0; row < targets.elements(); ++row) {
    const std::int32_t target = targets.i32()[row];
    if (target < 0 || target >= vocabulary)
      throw std::out_of_range(
          fmt::format("{}: target {} of row {} is outside the vocabulary [0, {})", kernel, target,
                      row, vocabulary));
  }
}

element::SoftmaxPart softmax_part(const float* x, std::int64_t n) {
  constexpr std::int64_t block = 512;
  std::array<float, block> exponentials;
  float* const e = exponentials.data();
  element::SoftmaxPart whole;
  for (std::int64_t first = 0; first < n; first += block) {
    const float* const in = x + first;
    const std::int64_t width = std::min(block, n - first);
    const float maximum = lane_max(width, in);
    // If all logits of a block are -∞ (masked), subtract 0 instead of the maximum, so that the
    // block's sum is 0.
    const float shift = std::isinf(maximum) && maximum < 0.0F ? 0.0F : maximum;
    for (std::int64_t i = 0; i < width; ++i) e[i] = element::exp(in[i] - shift);
    whole = merge(whole, {maximum, lane_sum(width, [e](std::int64_t i) { return e[i]; })});
  }
  return whole;
}

void cross_entropy_forward(Queue, In logits, Indices targets, Out32 losses, Out32 lse) {
  const auto [rows, vocabulary] = arguments::cross_entropy_forward(logits, targets, losses, lse);
  want_targets("cross_entropy_forward", targets, vocabulary);
  for (std::int64_t row = 0; row < rows; ++row) {
    const float* const in = logits.f32() + row * logits.row_stride;
    const element::SoftmaxPart part = softmax_part(in, vocabulary);
    const float log_sum = std::log(part.sum);
    lse.f32()[row] = part.maximum + log_sum;
    // Not computed as lse - logit, because for logits near 1e4 that difference of two large rounded
    // numbers is mostly noise.
    losses.f32()[row] = log_sum + (part.maximum - in[targets.i32()[row]]);
  }
}

void cross_entropy_backward(Queue, In logits, Indices targets, In32 lse, float scale, Out dlogits) {
  const auto [rows, vocabulary] = arguments::cross_entropy_backward(logits, targets, lse, dlogits);
  want_targets("cross_entropy_backward", targets, vocabulary);
  for (std::int64_t row = 0; row < rows; ++row) {
    const float* const in = logits.f32() + row * logits.row_stride;
    float* const out = dlogits.f32() + row * dlogits.row_stride;
    const float log_sum = lse.f32()[row];
    const std::int32_t target = targets.i32()[row];
    const float target_probability = element::exp(in[target] - log_sum);
#pragma GCC ivdep  // dlogits may be logits
    for (std::int64_t i = 0; i < vocabulary; ++i) out[i] = element::exp(in[i] - log_sum) * scale;
    out[target] = (target_probability - 1.0F) * scale;
  }
}

void cross_entropy_part_forward(Queue, In logits, Indices targets, VocabularyPart part,
                                Out32 statistics) {
  const auto [rows, columns] =
      arguments::cross_entropy_part_forward(logits, targets, part, statistics);
  float* const maxima = statistics.f32();
  float* const sums = maxima + rows;
  float* const target_logits = sums + rows;
  for (std::int64_t row = 0; row < rows; ++row) {
    const float* const in = logits.f32() + row * logits.row_stride;
    const element::SoftmaxPart mine = softmax_part(in, part.count);
    const std::int64_t target = targets.i32()[row] - part.first;
    maxima[row] = mine.maximum;
    sums[row] = mine.sum;
    target_logits[row] = target >= 0 && target < part.count ? in[target] : 0.0F;
  }
}

void cross_entropy_merge(Queue, In32 statistics, Out32 losses, Out32 lse) {
  const auto [ranks, rows] = arguments::cross_entropy_merge(statistics, losses, lse);
  for (std::int64_t row = 0; row < rows; ++row) {
    element::SoftmaxPart whole;
    float target_logit = 0;
    for (std::int64_t rank = 0; rank < ranks; ++rank) {
      const float* const of_rank = statistics.f32() + 3 * rank * rows + row;
      whole = merge(whole, {of_rank[0], of_rank[rows]});
      target_logit += of_rank[2 * rows];
    }
    const float log_sum = std::log(whole.sum);
    lse.f32()[row] = whole.maximum + log_sum;
    losses.f32()[row] = log_sum + (whole.maximum - target_logit);
  }
}

void cross_entropy_part_backward(Queue, In logits, Indices targets, VocabularyPart part, In32 lse,
                                 float scale, Out dlogits) {
  const auto [rows, columns] =
      arguments::cross_entropy_part_backward(logits, targets, part, lse, dlogits);
  for (std::int64_t row = 0; row < rows; ++row) {
    const float* const in = logits.f32() + row * logits.row_stride;
    float* const out = dlogits.f32() + row * dlogits.row_stride;
    const float log_sum = lse.f32()[row];
    const std::int64_t target = targets.i32()[row] - part.first;
    const bool mine = target >= 0 && target < part.count;
    const float target_probability = mine ? element::exp(in[target] - log_sum) : 0.0F;
#pragma GCC ivdep  // dlogits may be logits
    for (std::int64_t i = 0; i < part.count; ++i) out[i] = element::exp(in[i] - log_sum) * scale;
    std::fill(out + part.count, out + columns, 0.0F);
    if (mine) out[target] = (target_probability - 1.0F) * scale;
  }
}

}  // namespace

void set_cross_entropy(Kernels& kernels) {
  kernels.cross_entropy_forward = cross_entropy_forward;
  kernels.cross_entropy_backward = cross_entropy_backward;
  kernels.cross_entropy_part_forward = cross_entropy_part_forward;
  kernels.cross_entropy_merge = cross_entropy_merge;
  kernels.cross_entropy_part_backward = cross_entropy_part_backward;
}

}  // namespace lockstep::cpu
