#include "kernels/cpu/attention_rows.h"

#include <cmath>
#include <limits>

#include "kernels/cpu/reduce.h"
#include "kernels/element.h"

namespace lockstep::cpu {

namespace {

/// Converts a score to a probability. The forward and backward passes share this function, so their
/// probabilities are bitwise identical.
float probability(float score, float log_sum) {
  return element::exp(score - log_sum);
}

/// Sets the elements of a row that are not `seen` to zero.
void mask(float* row, Range seen, std::int64_t keys) {
  std::fill(row, row + seen.begin, 0.0F);
  std::fill(row + seen.end, row + keys, 0.0F);
}

}  // namespace

void forward_block(const AttentionSizes& n, Block block, Head q, Head k, Head v, Head y, float* lse,
                   float* kept, float* p) {
  const std::int64_t keys = block.keys();
  if (keys == 0) {
    std::fill(lse + block.first, lse + block.end, -std::numeric_limits<float>::infinity());
    std::fill(y.row(block.first), y.row(block.end), 0.0F);
    return;
  }
  gemm({block.rows(), keys, n.d}, n.scale, q.from(block.first), k.transposed(block.first_key), 0.0F,
       p, keys);
  float inverse_sum[block_rows];
  for (std::int64_t i = 0; i < block.rows(); ++i) {
    const Range seen = block.seen(i);
    float* const row = p + i * keys + seen.begin;
    float* const kept_row = kept == nullptr ? nullptr : kept + (block.first + i) * n.s;
    if (kept_row != nullptr) std::copy(row, row + seen.count(), kept_row);
    const float maximum = lane_max(seen.count(), row);
    for (std::int64_t j = 0; j < seen.count(); ++j) row[j] = element::exp(row[j] - maximum);
    mask(p + i * keys, seen, keys);
    const float sum = lane_sum(seen.count(), [row](std::int64_t j) { return row[j]; });
    const float log_sum = lse[block.first + i] = maximum + std::log(sum);
    inverse_sum[i] = sum == 0.0F ? 0.0F : 1.0F / sum;  // 0 if the row sees no key
    if (kept_row == nullptr) continue;
    // Computes the probabilities from the scores, as the backward pass does; row[j] / sum could
    // differ from the backward pass's result in the last bits.
    for (std::int64_t j = 0; j < seen.count(); ++j) kept_row[j] = probability(kept_row[j], log_sum);
    mask(kept_row, seen, n.s);
  }
  gemm({block.rows(), n.d, keys}, 1.0F, {p, keys}, v.from(block.first_key), 0.0F,
       y.row(block.first), y.stride);
  // Scaling y takes d multiplications per row; scaling p would take s of them.
  for (std::int64_t i = 0; i < block.rows(); ++i) {
    float* const row = y.row(block.first + i);
    for (std::int64_t c = 0; c < n.d; ++c) row[c] *= inverse_sum[i];
  }
}

void recompute_probabilities(const AttentionSizes& n, Block block, Head q, Head k, const float* lse,
                             float* p) {
  const std::int64_t keys = block.keys();
  gemm({block.rows(), keys, n.d}, n.scale, q.from(block.first), k.transposed(block.first_key), 0.0F,
       p, keys);
  for (std::int64_t i = 0; i < block.rows(); ++i) {
    const Range seen = block.seen(i);
    float* const row = p + i * keys + seen.begin;
    const float log_sum = lse[block.first + i];
    for (std::int64_t j = 0; j < seen.count(); ++j) row[j] = probability(row[j], log_sum);
    mask(p + i * keys, seen, keys);
  }
}

void backward_block(const AttentionSizes& n, Block block, Head dy, Head q, Head k, Head v, Head y,
                    Matrix p, Head dq, Head dk, Head dv, float* dp, float add_to_dq,
                    float add_to_dk_dv) {
  const std::int64_t keys = block.keys();
  gemm({block.rows(), keys, n.d}, 1.0F, dy.from(block.first), v.transposed(block.first_key), 0.0F,
       dp, keys);
  for (std::int64_t i = 0; i < block.rows(); ++i) {
    const Range seen = block.seen(i);
    const float* const p_row = p.data + i * p.row_stride + seen.begin;
    float* const ds_row = dp + i * keys + seen.begin;
    const float* const dy_row = dy.row(block.first + i);
    const float* const y_row = y.row(block.first + i);
    // The backward pass of softmax needs Σ_j p_j dp_j, which equals dy · y. The latter takes d
    // multiplications instead of s.
    const float dot = lane_sum(n.d, [=](std::int64_t c) { return dy_row[c] * y_row[c]; });
#pragma GCC ivdep
    for (std::int64_t j = 0; j < seen.count(); ++j)
      ds_row[j] = p_row[j] * (ds_row[j] - dot) * n.scale;
    mask(dp + i * keys, seen, keys);
  }
  gemm({keys, n.d, block.rows()}, 1.0F, {p.data, p.row_stride, true}, dy.from(block.first),
       add_to_dk_dv, dv.row(block.first_key), dv.stride);
  gemm({keys, n.d, block.rows()}, 1.0F, {dp, keys, true}, q.from(block.first), add_to_dk_dv,
       dk.row(block.first_key), dk.stride);
  gemm({block.rows(), n.d, keys}, 1.0F, {dp, keys}, k.from(block.first_key), add_to_dq,
       dq.row(block.first), dq.stride);
}

}  // namespace lockstep::cpu
