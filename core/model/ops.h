#pragma once

#include <optional>
#include <type_traits>

#include "core/device/device.h"

namespace lockstep {

/// The cost of each kernel. `flops` counts matrix multiplications only, like the model FLOPs of
/// published papers (a multiply-add counts as two). `bytes` counts each read and write once, at
/// `width` bytes per element (4 for statistics). 16-bit elements change neither the number of FLOPs
/// nor the modelled FLOP/s.
namespace cost {
/// 2 · rows · in · out FLOPs in each of forward, backward_input and backward_weight.
Cost linear_forward(std::int64_t rows, std::int64_t in, std::int64_t out, bool bias,
                    std::size_t width = 4);
Cost linear_backward_input(std::int64_t rows, std::int64_t in, std::int64_t out,
                           std::size_t width = 4);
Cost linear_backward_weight(std::int64_t rows, std::int64_t in, std::int64_t out, bool bias,
                            std::size_t width = 4);
/// The products q kᵀ and p v. Attention is causal, so only *half* is counted: 2 b s² h (the full
/// products would need 4 b s² h). `probabilities` says whether the kernel also writes the
/// probabilities, as full (s, s) matrices in f32. `groups` is the number of heads of k and v, which
/// changes the bytes but not the FLOPs; 0 means as many as `heads`.
Cost attention_forward(const Shape& y, int heads, std::size_t width = 4, bool probabilities = false,
                       std::int64_t groups = 0);
/// Five products (recomputed scores, dv, dp, dq, dk), each counted as half: 5 b s² h, 2.5 times the
/// forward pass. If the probabilities were kept, the scores are not recomputed, which leaves 4 b s²
/// h.
Cost attention_backward(const Shape& y, int heads, std::size_t width = 4,
                        bool probabilities = false, std::int64_t groups = 0);
/// A block has no mask, so all of its products are counted: 4 b h · queries · keys FLOPs, and 2.5
/// times as many in the backward pass. `q` is (b, s, h). With document masks, `pairs` counts the
/// pairs of a query and a key that it sees, over all sequences, and replaces b · queries · keys.
Cost attention_block_forward(const Shape& q, int heads, const AttentionBlock& block,
                             std::size_t width = 4, std::int64_t groups = 0,
                             std::optional<std::int64_t> pairs = {});
Cost attention_block_backward(const Shape& q, int heads, const AttentionBlock& block,
                              std::size_t width = 4, std::int64_t groups = 0,
                              std::optional<std::int64_t> pairs = {});
/// Returns the bytes that a kernel moves for one argument: 0 if the argument is not a view.
template <class T>
double traffic(const T&) {
  return 0;
}
template <Access access, ElementType type>
double traffic(const Argument<access, type>& view) {
  return (access == Access::read_write ? 2.0 : 1.0) * static_cast<double>(view.bytes());
}
}  // namespace cost

/// Launches kernels. Records each one in the trace as a named span, and charges its cost to the
/// modelled clock. kernels/kernels.h documents the arguments.
class Ops {
 public:
  /// `dtype` is the type in which activations are stored.
  Ops(Device device, int layer, DType dtype = DType::f32)
      : device_(device), layer_(layer), dtype_(dtype) {}

  /// The type in which activations are stored.
  DType dtype() const { return dtype_; }
  /// Allocates an activation, uninitialised. `kind` names it in memory reports, such as "qkv"
  /// (MemoryParts).
  Tensor activation(const Shape& shape, const char* kind = nullptr) const {
    return Tensor{device_.memory, shape, MemoryCategory::activations, dtype_, kind};
  }
  /// Allocates an activation whose rows are aligned on a GPU (Tensor::with_aligned_rows); there may
  /// be gaps between rows. For kernels that take strided views.
  Tensor aligned_activation(const Shape& shape, const char* kind = nullptr) const {
    return Tensor::with_aligned_rows(device_.memory, shape, MemoryCategory::activations, dtype_,
                                     kind);
  }
  /// Allocates statistics for the backward pass, uninitialised; always in f32.
  Tensor statistic(const Shape& shape, const char* kind = nullptr) const {
    return Tensor{device_.memory, shape, MemoryCategory::activations, DType::f32, kind};
  }

  // A Linear, with N = b s rows: x and dx (N, in), y and dy (N, out), w and dw (in, out) or, in the
  // other layout, (out, in), bias and db (out) or empty.
  /// y = x W + bias.
  void linear_forward(View x, View w, View bias, View y, WeightLayout layout) const;
  /// dx = dy Wᵀ.
  void linear_backward_input(View dy, View w, View dx, WeightLayout layout) const;
  /// dw += xᵀ dy, and db += the sum of dy's rows.
  void linear_backward_weight(View x, View dy, View dw, View db, WeightLayout layout) const;

  // LayerNorm of N rows: x, y, dx and dy (N, h), gain, bias and their gradients (h), mean and rstd
  // (N) f32.
  /// y = (x - mean) * rstd * gain + bias. Also computes mean and rstd, for the backward pass.
  void layernorm_forward(View x, View gain, View bias, View y, View mean, View rstd) const;
  /// Computes dx, which may be dy.
  void layernorm_backward_input(View dy, View x, View gain, View mean, View rstd, View dx) const;
  /// Whether to call the two fusions below. They exist only on a GPU, and the modelled clock does
  /// not use them: it describes each operation by itself, and the same operations on all devices.
  bool fuses() const;
  /// sum = a + b, all (N, h), then layernorm_forward of it. sum may be a or b.
  void add_layernorm_forward(View a, View b, View sum, View gain, View bias, View y, View mean,
                             View rstd) const;
  /// layernorm_backward_input, then dx += other (N, h). dx may be dy, but not `other`.
  void layernorm_backward_input_add(View dy, View x, View gain, View mean, View rstd, View other,
                                    View dx) const;
  /// dgain += Σ dy * x̂ and dbias += Σ dy, summed over the rows.
  void layernorm_backward_weight(View dy, View x, View mean, View rstd, View dgain,
                                 View dbias) const;

  // RMSNorm of N rows: x, y, dx and dy (N, h), gain and its gradient (h), rstd (N) f32.
  /// y = x * rstd * gain, with rstd = 1 / √(mean(x²) + epsilon), kept for the backward pass.
  void rmsnorm_forward(View x, View gain, float epsilon, View y, View rstd) const;
  /// Computes dx, which may be dy.
  void rmsnorm_backward_input(View dy, View x, View gain, View rstd, View dx) const;
  /// dgain += Σ dy * x̂, summed over the rows.
  void rmsnorm_backward_weight(View dy, View x, View rstd, View dgain) const;

  void gelu_forward(View x, View y) const;
  void gelu_backward(View x, View dy, View dx) const;

  /// y (N, f) = silu(gate) * up, where x (N, 2f) is gate and up side by side.
  void swiglu_forward(View x, View y) const;
  /// Computes dx (N, 2f), which may be x, from dy (N, f).
  void swiglu_backward(View x, View dy, View dx) const;

  /// Rotates the pairs of columns (i, i + d/2) of every head of x (b, s, h), strided, by the angles
  /// of their rows' `positions`, (s) or (b, s): row p of `table` (P, d) is the cosines of position
  /// p and then the sines. `inverse` is the backward pass.
  void rotary(View x, int heads, View table, View positions, bool inverse) const;

  // Attention with `heads` heads of d = h / heads columns each: q, y and their gradients (b, s, h);
  // k, v and theirs (b, s, g d), with g ≤ heads: each of the g heads serves a group of heads / g
  // query heads. q, k, v, dq, dk, dv may be columns of one tensor; lse (b, heads, s) f32.
  /// y = softmax(q kᵀ / √d, causal) v for each head. lse receives the log-sum-exp of each row of
  /// scores; `probabilities` (b, heads, s, s) f32, unless empty, receives the softmax.
  void attention_forward(View q, View k, View v, int heads, View y, View lse,
                         View probabilities = {}) const;
  /// Computes dq, dk and dv. If `probabilities` is empty, they are recomputed from lse; otherwise
  /// lse may be empty.
  void attention_backward(View dy, View q, View k, View v, View y, View lse, View probabilities,
                          int heads, View dq, View dk, View dv) const;

  /// y (b, queries, h) = softmax(q kᵀ / √d) v over the queries and keys of `block`; lse (b, heads,
  /// queries). q is (b, s, h), k and v are (b, s', g d). With document masks, `visible` (b, s, 2)
  /// i32 holds the range of rows of k that each row of q sees, and the clock charges for `pairs`,
  /// the number of pairs of a query and a key that it sees within the block, over all sequences.
  void attention_block_forward(View q, View k, View v, int heads, const AttentionBlock& block,
                               View y, View lse, View visible = {}, std::int64_t pairs = 0) const;
  /// Merges y_part (b, n, h) and lse_part (b, heads, n), the same queries' attention to other keys,
  /// into rows [first, first + n) of every sequence of y (b, s, h) and lse (b, heads, s).
  void attention_merge(View y_part, View lse_part, int heads, std::int64_t first, View y,
                       View lse) const;
  /// Adds the block's part to dq (b, s, h), dk and dv (b, s', g d). dy and y (b, s, h) and lse (b,
  /// heads, s) are those of all keys.
  void attention_block_backward(View dy, View q, View k, View v, View y, View lse, int heads,
                                const AttentionBlock& block, View dq, View dk, View dv,
                                View visible = {}, std::int64_t pairs = 0) const;

  void embedding_forward(View tokens, View tokens_table, View positions_table, View x) const;
  void embedding_backward(View tokens, View dx, View dtokens_table, View dpositions_table) const;

  void embedding_part_forward(View tokens, VocabularyPart part, View tokens_table,
                              View positions_table, View x) const;
  void embedding_part_backward(View tokens, VocabularyPart part, View dx, View dtokens_table,
                               View dpositions_table) const;

  void cross_entropy_forward(View logits, View targets, View losses, View lse) const;
  void cross_entropy_backward(View logits, View targets, View lse, float scale, View dlogits) const;
  void cross_entropy_part_forward(View logits, View targets, VocabularyPart part,
                                  View statistics) const;
  void cross_entropy_merge(View statistics, View losses, View lse) const;
  void cross_entropy_part_backward(View logits, View targets, VocabularyPart part, View lse,
                                   float scale, View dlogits) const;

  void router_forward(View logits, View probabilities, View experts, View gaps) const;
  void router_backward(View probabilities, View experts, View dweights, View balance,
                       View dlogits) const;
  void gather_rows(View x, View rows, View y) const;
  void combine_rows(View x, View slots, View probabilities, View experts, View y) const;
  void combine_rows_backward(View dy, View x, View slots, View probabilities, View experts, View dx,
                             View dweights) const;

  void add(View a, View b, View y) const;
  void copy(View from, View to) const;
  void fill(View x, float value) const;
  /// Computes the sum of x, one double (Kernels::sums), for reports, without charging the clock.
  void sum(View x, View into) const;

 private:
  template <class... Arguments>
  using Launched = Kernel<void(Queue, Arguments...)> Kernels::*;

  template <class... Arguments>
  void launch(const char* name, const Cost& cost, Launched<Arguments...> kernel,
              const std::type_identity_t<Arguments>&... arguments) const {
    device_.compute.launch(Span{.name = name, .category = Category::kernel, .layer = layer_}, cost,
                           [&](const Kernels& k, Queue q) { (k.*kernel)(q, arguments...); });
  }
  /// Launches a kernel that only moves memory. The kernel reads each In view once, writes each Out
  /// view once, and does both for each InOut view.
  template <class... Arguments>
  void launch(const char* name, Launched<Arguments...> kernel,
              const std::type_identity_t<Arguments>&... arguments) const {
    launch(name, Cost{.flops = 0, .bytes = (cost::traffic(arguments) + ...)}, kernel, arguments...);
  }

  Device device_;
  int layer_;
  DType dtype_;
};

}  // namespace lockstep
