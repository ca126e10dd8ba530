#pragma once

#include "kernels/view.h"

namespace lockstep {

/// The queue on which a kernel runs. On the CPU, kernels run synchronously on the calling thread
/// and ignore it. On a GPU `handle` is a cudaStream_t, and the call returns once the kernel is
/// enqueued.
struct Queue {
  void* handle = nullptr;
};

/// The memory layout of a linear layer's weight.
enum class WeightLayout {
  in_out,  ///< (in, out), y = x W + b: GPT-2's own layout ("Conv1D")
  out_in,  ///< (out, in), y = x Wᵀ + b: an output head, which may share the token embedding (V, h)
};

/// The parameters of one AdamW step (Loshchilov & Hutter 2019, algorithm 2), as in PyTorch.
struct AdamWStep {
  float learning_rate = 1e-3F;
  float beta1 = 0.9F;
  float beta2 = 0.95F;
  float epsilon = 1e-8F;
  float weight_decay = 0.0F;  ///< decoupled: subtracts learning_rate * weight_decay * weight
  float gradient_scale =
      1.0F;               ///< applied to the gradient first: clipping, averaging, loss scaling
  std::int64_t step = 1;  ///< counted from 1, for the bias corrections 1 - beta^step
};

/// The arithmetic of a GPT, forward and backward, over Views. Independent of ranks, tensors and
/// time; allocates no memory that outlives a call.
///
/// Conventions: N is the number of rows (b * s flattened). Views are contiguous unless a method
/// says "strided". Outputs are overwritten, except parameter gradients (arguments named `dw`, `db`,
/// `dgain` and so on), which are *added to* so that microbatches accumulate.
///
/// Views are f32, or bf16 or f16 as storage types: a kernel widens its inputs, computes in f32, and
/// rounds each output once (for gradients that accumulate, it rounds the sum). Statistics (`mean`,
/// `rstd`, `lse`, `probabilities`, `losses`) and AdamW's moments are always f32.
///
/// The same shapes and inputs give the same bits at any address. Shapes that do not fit throw
/// std::invalid_argument, naming the kernel and both shapes.
class Kernels {
 public:
  virtual ~Kernels() = default;

  // -- linear -------------------------------------------------------------------------------------
  /// y (N, out) = x (N, in) W + bias (out). `bias` may be empty. x, y strided.
  virtual void linear_forward(Queue, View x, View w, View bias, View y, WeightLayout) const = 0;
  /// dx (N, in) = dy (N, out) Wᵀ. dx, dy strided.
  virtual void linear_backward_input(Queue, View dy, View w, View dx, WeightLayout) const = 0;
  /// dw += xᵀ dy, and db (out) += the column sums of dy unless db is empty. x, dy strided.
  virtual void linear_backward_weight(Queue, View x, View dy, View dw, View db,
                                      WeightLayout) const = 0;

  // -- layer normalisation (Ba 2016), epsilon 1e-5 ------------------------------------------------
  /// y (N, h) = (x - mean) * rstd * gain + bias; mean and rstd (N) are kept for backward.
  virtual void layernorm_forward(Queue, View x, View gain, View bias, View y, View mean,
                                 View rstd) const = 0;
  /// dx (N, h), overwritten. dx may be dy.
  virtual void layernorm_backward_input(Queue, View dy, View x, View gain, View mean, View rstd,
                                        View dx) const = 0;
  /// dgain (h) += Σ dy * x̂ and dbias (h) += Σ dy, summed over rows.
  virtual void layernorm_backward_weight(Queue, View dy, View x, View mean, View rstd, View dgain,
                                         View dbias) const = 0;

  // -- GELU, tanh form: 0.5 x (1 + tanh(√(2/π) (x + 0.044715 x³))) --------------------------------
  virtual void gelu_forward(Queue, View x, View y) const = 0;
  /// dx = dy * gelu'(x). dx may be dy.
  virtual void gelu_backward(Queue, View x, View dy, View dx) const = 0;

  // -- causal attention ---------------------------------------------------------------------------
  /// y (b, s, h) = softmax(q kᵀ / √(h / heads), causal) v for each head: head i is columns [i
  /// h/heads, (i+1) h/heads). `lse` (b, heads, s) receives the log of each row's sum of
  /// exponentials, from which backward can recompute the (s, s) probabilities. q, k, v strided
  /// (columns of one (b, s, 3h) tensor). `probabilities` (b, heads, s, s) may be empty; otherwise
  /// it receives the softmax, with zeros above the diagonal.
  virtual void attention_forward(Queue, View q, View k, View v, int heads, View y, View lse,
                                 View probabilities) const = 0;
  /// dq, dk, dv (b, s, h), overwritten, strided, from dy (b, s, h) and forward's outputs. If
  /// `probabilities` is empty, backward recomputes it from `lse`, which takes one more product;
  /// otherwise `lse` may be empty. Both ways give the same bits.
  virtual void attention_backward(Queue, View dy, View q, View k, View v, View y, View lse,
                                  View probabilities, int heads, View dq, View dk,
                                  View dv) const = 0;

  // -- embedding ----------------------------------------------------------------------------------
  /// x (b, s, h) = tokens_table[tokens] + positions_table[0 .. s), with tokens (b, s) i32,
  /// tokens_table (V, h), positions_table (at least s, h). A token outside [0, V) throws
  /// std::out_of_range on the CPU; on a GPU its row of x is the position embedding alone.
  virtual void embedding_forward(Queue, View tokens, View tokens_table, View positions_table,
                                 View x) const = 0;
  /// Adds dx (b, s, h) to the rows that forward read, in ascending order of (b, s).
  virtual void embedding_backward(Queue, View tokens, View dx, View dtokens_table,
                                  View dpositions_table) const = 0;

  // -- loss ---------------------------------------------------------------------------------------
  /// losses (N) = -log softmax(logits (N, V))[targets (N) i32]; lse (N) is kept for backward.
  virtual void cross_entropy_forward(Queue, View logits, View targets, View losses,
                                     View lse) const = 0;
  /// dlogits (N, V) = (softmax(logits) - onehot(targets)) * scale. dlogits may be logits.
  virtual void cross_entropy_backward(Queue, View logits, View targets, View lse, float scale,
                                      View dlogits) const = 0;

  // -- elementwise --------------------------------------------------------------------------------
  /// y = a + b; y may be a or b.
  virtual void add(Queue, View a, View b, View y) const = 0;
  virtual void scale(Queue, View x, float factor) const = 0;
  virtual void fill(Queue, View x, float value) const = 0;
  /// Copies elements between two strided views of the same dtype.
  virtual void copy(Queue, View from, View to) const = 0;
  /// Like copy, but between any two floating-point types: widening is exact, narrowing rounds to
  /// nearest, ties to even. `from` and `to` must not overlap.
  virtual void convert(Queue, View from, View to) const = 0;

  // -- optimizer ----------------------------------------------------------------------------------
  /// Updates parameter, momentum and variance (n each) from the gradient (n) in place.
  virtual void adamw(Queue, View parameter, View gradient, View momentum, View variance,
                     const AdamWStep&) const = 0;
  /// Returns the sum of squares, accumulated in double in a fixed order. Waits for the queue.
  virtual double sum_of_squares(Queue, View x) const = 0;
  /// Returns whether all elements are finite, as loss scaling requires of gradients. One pass;
  /// waits for the queue.
  virtual bool finite(Queue, View x) const = 0;
  /// Returns the sum, accumulated in double in a fixed order (losses). Waits for the queue.
  virtual double sum(Queue, View x) const = 0;
};

/// Returns the CPU kernels: OpenBLAS (one thread) and vectorised loops.
const Kernels& cpu_kernels();

}  // namespace lockstep
