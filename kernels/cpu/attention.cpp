/// Causal attention, computed head by head, in blocks of query rows.
///
/// A block of 64 queries attends to the keys up to its own last row, so only the scores below the
/// diagonal or in a diagonal block are computed, not the whole (s, s) matrix. The forward pass
/// takes 2 s² d (1 + 64/s) FLOPs per head, with d = h / heads, instead of 4 s² d. The scores of one
/// block (64 s floats) stay in the L2 cache. The full (s, s) probabilities are stored only if the
/// caller asks for them. Otherwise the forward pass keeps each row's log-sum-exp, from which the
/// backward pass recomputes the probabilities (Dao 2022, "FlashAttention", algorithm 4).

#include <algorithm>
#include <cmath>
#include <memory>

#include "kernels/arguments.h"
#include "kernels/cpu/cpu_kernels.h"
#include "kernels/cpu/gemm.h"
#include "kernels/cpu/reduce.h"
#include "kernels/element.h"

namespace lockstep::cpu {
namespace {

constexpr std::int64_t block_rows = 64;

using Sizes = arguments::Attention;

/// The (s, d) matrix of one sequence and head, in f32 and without gaps between its rows.
struct Head {
  float* data;
  std::int64_t stride;

  float* row(std::int64_t r) const { return data + r * stride; }
  Matrix from(std::int64_t r) const { return {row(r), stride}; }
  Matrix transposed(std::int64_t r) const { return {row(r), stride, true}; }
};

/// Memory for the matrices of one sequence and head. In a (b, s, h) view, a head's rows are h or 3
/// h elements apart, and their elements may be 16-bit. A product copies a matrix whose rows have
/// gaps (gemm.h). Every block of queries multiplies by the same keys and values, so they are copied
/// once for all blocks.
class Heads {
 public:
  Heads(const Sizes& n, int count)
      : n_(n),
        memory_(
            std::make_unique_for_overwrite<float[]>(static_cast<std::size_t>(count * n.s * n.d))) {}

  void select(std::int64_t sequence, std::int64_t head) {
    sequence_ = sequence;
    head_ = head;
  }
  /// Returns matrix i.
  Head operator[](int i) const { return {memory_.get() + i * n_.s * n_.d, n_.d}; }
  /// Returns matrix i, copied from the selected head of a (b, s, h) view.
  Head read(const View& view, int i) const {
    convert({}, part(view), dense(i));
    return (*this)[i];
  }
  /// Copies matrix i to the selected head of a (b, s, h) view.
  void write(int i, const View& view) const { convert({}, dense(i), part(view)); }

 private:
  View dense(int i) const { return {(*this)[i].data, {n_.s, n_.d}}; }
  View part(const View& view) const {
    const std::int64_t first = sequence_ * n_.s * view.row_stride + head_ * n_.d;
    View part{
        static_cast<std::byte*>(view.data) + static_cast<std::size_t>(first) * size_of(view.dtype),
        {n_.s, n_.d},
        view.dtype};
    part.row_stride = view.row_stride;
    return part;
  }

  Sizes n_;
  std::unique_ptr<float[]> memory_;
  std::int64_t sequence_ = 0, head_ = 0;
};

/// Query rows [first, end), which attend to keys [0, end).
struct Block {
  std::int64_t first, end;
  std::int64_t rows() const { return end - first; }
  /// Returns the number of keys visible to row i of the block.
  std::int64_t visible(std::int64_t i) const { return first + i + 1; }
};

/// Allocates scores for one block: (64, s).
std::unique_ptr<float[]> scores(const Sizes& n) {
  return std::make_unique_for_overwrite<float[]>(static_cast<std::size_t>(block_rows * n.s));
}

/// Converts a score to a probability. The forward and backward passes share this function, so their
/// probabilities are bitwise identical.
inline float probability(float score, float log_sum) {
  return element::exp(score - log_sum);
}

/// Computes y = softmax(scale q kᵀ) v and lse for one block of queries. Also writes the
/// probabilities to `kept` (s, s) unless it is null. `p` is scratch.
void forward_block(const Sizes& n, Block block, Head q, Head k, Head v, Head y, float* lse,
                   float* kept, float* p) {
  const std::int64_t keys = block.end;
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

/// Recomputes the probabilities of one block of queries from lse; masked entries are zero.
void recompute_probabilities(const Sizes& n, Block block, Head q, Head k, const float* lse,
                             float* p) {
  const std::int64_t keys = block.end;
  gemm({block.rows(), keys, n.d}, n.scale, q.from(block.first), k.transposed(0), 0.0F, p, keys);
  for (std::int64_t i = 0; i < block.rows(); ++i) {
    float* const row = p + i * keys;
    const std::int64_t visible = block.visible(i);
    const float log_sum = lse[block.first + i];
    for (std::int64_t j = 0; j < visible; ++j) row[j] = probability(row[j], log_sum);
    std::fill(row + visible, row + keys, 0.0F);
  }
}

/// Computes the gradients that one block of queries contributes. `p` holds the block's
/// probabilities, starting at its first row; `dp` is scratch. The last block, which attends to all
/// keys, overwrites dk and dv; the other blocks add to them.
void backward_block(const Sizes& n, Block block, Head dy, Head q, Head k, Head v, Head y, Matrix p,
                    Head dq, Head dk, Head dv, float* dp) {
  const std::int64_t keys = block.end;
  const float accumulate = block.end == n.s ? 0.0F : 1.0F;
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
       accumulate, dv.data, dv.stride);
  gemm({keys, n.d, block.rows()}, 1.0F, {dp, keys, true}, q.from(block.first), accumulate, dk.data,
       dk.stride);
  gemm({block.rows(), n.d, keys}, 1.0F, {dp, keys}, k.from(0), 0.0F, dq.row(block.first),
       dq.stride);
}

void attention_forward(Queue, In q, In k, In v, int heads, Out y, Out32 lse, Out32 probabilities) {
  const Sizes n = arguments::attention_forward(q, k, v, heads, y, lse, probabilities);
  const auto p = scores(n);
  Heads each{n, 4};
  for (std::int64_t b = 0; b < n.b; ++b)
    for (std::int64_t head = 0; head < n.heads; ++head) {
      const std::int64_t matrix = b * n.heads + head;
      each.select(b, head);
      const Head queries = each.read(q, 0), keys = each.read(k, 1), values = each.read(v, 2);
      for (std::int64_t first = 0; first < n.s; first += block_rows)
        forward_block(n, {first, std::min(first + block_rows, n.s)}, queries, keys, values, each[3],
                      lse.f32() + matrix * n.s,
                      n.probabilities ? probabilities.f32() + matrix * n.s * n.s : nullptr,
                      p.get());
      each.write(3, y);
    }
}

void attention_backward(Queue, In dy, In q, In k, In v, In y, In32 lse, In32 probabilities,
                        int heads, Out dq, Out dk, Out dv) {
  const Sizes n =
      arguments::attention_backward(dy, q, k, v, y, lse, probabilities, heads, dq, dk, dv);
  const auto scratch = n.probabilities ? nullptr : scores(n);
  const auto dp = scores(n);
  Heads each{n, 8};
  for (std::int64_t b = 0; b < n.b; ++b)
    for (std::int64_t head = 0; head < n.heads; ++head) {
      const std::int64_t matrix = b * n.heads + head;
      each.select(b, head);
      const Head queries = each.read(q, 0), keys = each.read(k, 1), values = each.read(v, 2);
      const Head up = each.read(dy, 3), outputs = each.read(y, 4);
      for (std::int64_t end = n.s; end > 0; end -= (end - 1) % block_rows + 1) {
        const Block block{(end - 1) / block_rows * block_rows, end};
        Matrix p{scratch.get(), block.end};
        if (n.probabilities)
          p = {probabilities.f32() + (matrix * n.s + block.first) * n.s, n.s};
        else
          recompute_probabilities(n, block, queries, keys, lse.f32() + matrix * n.s, scratch.get());
        backward_block(n, block, up, queries, keys, values, outputs, p, each[5], each[6], each[7],
                       dp.get());
      }
      each.write(5, dq);
      each.write(6, dk);
      each.write(7, dv);
    }
}

}  // namespace

void set_attention(Kernels& kernels) {
  kernels.attention_forward = attention_forward;
  kernels.attention_backward = attention_backward;
}

}  // namespace lockstep::cpu
