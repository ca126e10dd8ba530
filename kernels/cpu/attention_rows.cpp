#include "kernels/cpu/attention_rows.h"

#include <cmath>

#include "kernels/cpu/reduce.h"
#include "kernels/element.h"

namespace lockstep::cpu {

namespace {

/// Converts a score to a probability. The forward and backward passes share this function, so their
/// probabilities are bitwise identical.
float probability(float score, float log_sum) {
  return element::exp(score - log_sum);
}

}  // namespace

void forward_block(const AttentionSizes& n, Block block, Head q, Head k, Head v, Head y, float* lse,
                   float* kept, float* p) {
  const std::int64_t keys = block.keys;
  gemm({block.rows(), keys, n.d}, n.scale, q.from(block.first), k.transposed(0), 0.0F, p, keys);
  float inverse_sum[block_rows];
  for (std::int64_t i = 0; i < block.rows(); ++i) {
    float* const row = p + i * keys;
    const std::int64_t visible = block.visible(i);
    float* const kept_row = kept == nullptr ? nullptr : kept + (block.first + i) * n.s;
    if (kept_row != nullptr) std::copy(row, row + visible, kept_row);
    const float maximum = lane_max(visible, row);
    for (std::int64_t j = 0; j < visible; ++j) row[j] = element::exp(row[j] - maximum);
    std::fill(row + visible, row + keys, 0.0F);
    const float sum = lane_sum(visible, [row](std::int64_t j) { return row[j]; });
    const float log_sum = lse[block.first + i] = maximum + std::log(sum);
    inverse_sum[i] = 1.0F / sum;
    if (kept_row == nullptr) continue;
    // Computes the probabilities from the scores, as the backward pass does; row[j] / sum could
    // differ from the backward pass's result in the last bits.
    for (std::int64_t j = 0; j < visible; ++j) kept_row[j] = probability(kept_row[j], log_sum);
    std::fill(kept_row + visible, kept_row + n.s, 0.0F);
  }
  gemm({block.rows(), n.d, keys}, 1.0F, {p, keys}, v.from(0), 0.0F, y.row(block.first), y.stride);
  // Scaling y takes d multiplications per row; scaling p would take s of them.
  for (std::int64_t i = 0; i < block.rows(); ++i) {
    float* const row = y.row(block.first + i);
    for (std::int64_t c = 0; c < n.d; ++c) row[c] *= inverse_sum[i];
  }
}

void recompute_probabilities(const AttentionSizes& n, Block block, Head q, Head k, const float* lse,
                             float* p) {
  const std::int64_t keys = block.keys;
  gemm({block.rows(), keys, n.d}, n.scale, q.from(block.first), k.transposed(0), 0.0F, p, keys);
  for (std::int64_t i = 0; i < block.rows(); ++i) {
    float* const row = p + i * keys;
    const std::int64_t visible = block.visible(i);
    const float log_sum = lse[block.first + i];
    for (std::int64_t j = 0; j < visible; ++j) row[j] = probability(row[j], log_sum);
    std::fill(row + visible, row + keys, 0.0F);
  }
}

void backward_block(const AttentionSizes& n, Block block, Head dy, Head q, Head k, Head v, Head y,
                    Matrix p, Head dq, Head dk, Head dv, float* dp, float add_to_dq,
                    float add_to_dk_dv) {
  const std::int64_t keys = block.keys;
  gemm({block.rows(), keys, n.d}, 1.0F, dy.from(block.first), v.transposed(0), 0.0F, dp, keys);
  for (std::int64_t i = 0; i < block.rows(); ++i) {
    const float* const p_row = p.data + i * p.row_stride;
    float* const ds_row = dp + i * keys;
    const float* const dy_row = dy.row(block.first + i);
    const float* const y_row = y.row(block.first + i);
    const std::int64_t visible = block.visible(i);
    // The backward pass of softmax needs Σ_j p_j dp_j, which equals dy · y. The latter takes d
    // multiplications instead of s.
    const float dot = lane_sum(n.d, [=](std::int64_t c) { return dy_row[c] * y_row[c]; });
#pragma GCC ivdep
    for (std::int64_t j = 0; j < visible; ++j) ds_row[j] = p_row[j] * (ds_row[j] - dot) * n.scale;
    std::fill(ds_row + visible, ds_row + keys, 0.0F);
  }
  gemm({keys, n.d, block.rows()}, 1.0F, {p.data, p.row_stride, true}, dy.from(block.first),
       add_to_dk_dv, dv.data, dv.stride);
  gemm({keys, n.d, block.rows()}, 1.0F, {dp, keys, true}, q.from(block.first), add_to_dk_dv,
       dk.data, dk.stride);
  gemm({block.rows(), n.d, keys}, 1.0F, {dp, keys}, k.from(0), add_to_dq, dq.row(block.first),
       dq.stride);
}

}  // namespace lockstep::cpu
