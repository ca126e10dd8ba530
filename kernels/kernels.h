#pragma once

#include <string>

#include "kernels/kernel.h"

namespace lockstep {

/// The memory layout of a linear layer's weight.
enum class WeightLayout {
  in_out,  ///< (in, out), y = x W + b: GPT-2's own layout ("Conv1D")
  out_in,  ///< (out, in), y = x Wᵀ + b: an output head, whose (V, h) weight may be the token table
};

/// The parameters of one AdamW step (Loshchilov & Hutter 2019, algorithm 2), as in PyTorch.
struct AdamWStep {
  float learning_rate = 1e-3F;
  float beta1 = 0.9F;
  float beta2 = 0.95F;
  float epsilon = 1e-8F;
  float weight_decay = 0.0F;    ///< decoupled: subtracts learning_rate * weight_decay * weight
  float gradient_scale = 1.0F;  ///< factor for the gradient: clipping, averaging, loss scaling
  std::int64_t step = 1;        ///< counted from 1, for the bias corrections 1 - beta^step
};

/// One tensor that adamw updates: n elements in each view.
struct AdamWTensor {
  InOut parameter;
  In gradient;
  InOut32 momentum, variance;
  /// Receives the updated parameter, rounded; may be empty. On a GPU, its dtype must be the
  /// gradient's.
  Out rounded;
};

/// The part of a vocabulary that one rank holds: tokens [first, first + count). The rank's rows of
/// the token table, and its columns of the logits, may be followed by padding.
struct VocabularyPart {
  std::int64_t first = 0;
  std::int64_t count = 0;
};

/// A rectangle of attention scores: in every sequence, each of `queries` rows of q, from row
/// `first_query`, attends to all of `keys` rows of k and v, from row `first_key`. If `causal`,
/// there are as many keys as queries, and the block's query i attends only to its keys up to i.
struct AttentionBlock {
  std::int64_t first_query = 0;
  std::int64_t queries = 0;
  std::int64_t first_key = 0;
  std::int64_t keys = 0;
  bool causal = false;
};

/// The arithmetic of a GPT's forward and backward passes, on Views. The kernels do not depend on
/// ranks, tensors or time, and allocate no memory that outlives a call. Call a member like a
/// function: kernels.add(queue, a, b, y).
///
/// Argument types (kernel.h): a kernel reads In, overwrites Out, and updates InOut in place.
/// Gradients of parameters (`dw`, `db`, `dgain` and so on) are InOut: a kernel *adds to* them, so
/// that microbatches accumulate. N is the number of rows (b * s flattened). Views are contiguous
/// unless a comment says "strided".
///
/// The elements of In, Out and InOut are f32, bf16 or f16. The 16-bit types are for storage only: a
/// kernel widens its inputs, computes in f32, and rounds each output once (for gradients that
/// accumulate, it rounds the sum). In32, Out32 and InOut32, which hold statistics and AdamW's
/// moments, are always f32; Indices are i32.
///
/// For the same shapes and inputs, results are bitwise identical at any address. Shapes that do not
/// fit throw std::invalid_argument, naming the kernel and both shapes.
struct Kernels {
  // -- linear -------------------------------------------------------------------------------------
  /// y (N, out) = x (N, in) W + bias (out). `bias` may be empty. x, y strided.
  Kernel<void(Queue, In x, In w, In bias, Out y, WeightLayout)> linear_forward;
  /// dx (N, in) = dy (N, out) Wᵀ. dx, dy strided.
  Kernel<void(Queue, In dy, In w, Out dx, WeightLayout)> linear_backward_input;
  /// dw += xᵀ dy, and db (out) += the column sums of dy unless db is empty. x, dy strided.
  Kernel<void(Queue, In x, In dy, InOut dw, InOut db, WeightLayout)> linear_backward_weight;

  // -- layer normalisation (Ba 2016), epsilon 1e-5 ------------------------------------------------
  /// y (N, h) = (x - mean) * rstd * gain + bias; mean and rstd (N) are kept for the backward pass.
  Kernel<void(Queue, In x, In gain, In bias, Out y, Out32 mean, Out32 rstd)> layernorm_forward;
  /// Computes dx (N, h) from dy (N, h) and the forward pass's x, mean and rstd. dx may be dy.
  Kernel<void(Queue, In dy, In x, In gain, In32 mean, In32 rstd, Out dx)> layernorm_backward_input;
  /// A fusion (see for_each_fusion in every_kernel.h): sum = a + b, then layernorm_forward of it.
  /// sum may be a or b.
  Kernel<void(Queue, In a, In b, Out sum, In gain, In bias, Out y, Out32 mean, Out32 rstd)>
      add_layernorm_forward;
  /// A fusion: layernorm_backward_input, then dx += other. dx may be dy, but not `other`.
  Kernel<void(Queue, In dy, In x, In gain, In32 mean, In32 rstd, In other, Out dx)>
      layernorm_backward_input_add;
  /// dgain (h) += Σ dy * x̂ and dbias (h) += Σ dy, summed over rows.
  Kernel<void(Queue, In dy, In x, In32 mean, In32 rstd, InOut dgain, InOut dbias)>
      layernorm_backward_weight;

  // -- root mean square normalisation (Zhang & Sennrich 2019) -------------------------------------
  /// y (N, h) = x * rstd * gain, with rstd (N) = 1 / √(mean(x²) + epsilon), which is kept for the
  /// backward pass.
  Kernel<void(Queue, In x, In gain, float epsilon, Out y, Out32 rstd)> rmsnorm_forward;
  /// Computes dx (N, h) from dy (N, h) and the forward pass's x and rstd. dx may be dy.
  Kernel<void(Queue, In dy, In x, In gain, In32 rstd, Out dx)> rmsnorm_backward_input;
  /// dgain (h) += Σ dy * x̂, summed over rows, with x̂ = x * rstd.
  Kernel<void(Queue, In dy, In x, In32 rstd, InOut dgain)> rmsnorm_backward_weight;

  // -- GELU, tanh form: 0.5 x (1 + tanh(√(2/π) (x + 0.044715 x³))) --------------------------------
  Kernel<void(Queue, In x, Out y)> gelu_forward;
  /// dx = dy * gelu'(x). dx may be dy.
  Kernel<void(Queue, In x, In dy, Out dx)> gelu_backward;

  // -- SwiGLU (Shazeer 2020), with silu(z) = z / (1 + e^-z) ---------------------------------------
  /// y (N, f) = silu(gate) * up, where x (N, 2f) is gate and up side by side.
  Kernel<void(Queue, In x, Out y)> swiglu_forward;
  /// Computes dx (N, 2f) from x and dy (N, f). dx may be x.
  Kernel<void(Queue, In x, In dy, Out dx)> swiglu_backward;

  // -- rotary positions (Su 2021) -----------------------------------------------------------------
  /// Rotates pairs of columns in place: in each of the `heads` heads of x (b, s, h), strided,
  /// columns i and i + d/2 (d = h / heads, even) turn by the angle of their row's position. Row p
  /// of `table` (P, d) is the cosines of position p's d/2 angles, then the sines. `positions` is
  /// (b, s), or (s) if all sequences have the same positions. `inverse` rotates by the negative
  /// angles, which is the backward pass. A position outside [0, P) throws std::out_of_range on the
  /// CPU; on a GPU, its row is left unchanged.
  Kernel<void(Queue, InOut x, int heads, In32 table, Indices positions, bool inverse)> rotary;

  // -- causal attention ---------------------------------------------------------------------------
  // Grouped-query attention (Ainslie 2023): in all attention kernels, k, v and their gradients may
  // have fewer heads than q, g d columns with d = h / heads, if g divides `heads`. Each of the g
  // groups of heads / g consecutive query heads then shares one head of k and v, whose gradients
  // add up over the group's query heads, in ascending order.

  /// y (b, s, h) = softmax(q kᵀ / √d, causal) v for each head: head i is columns [i d, (i+1) d).
  /// `lse` (b, heads, s) receives the log of each row's sum of exponentials, from which the
  /// backward pass can recompute the (s, s) probabilities. q, k, v strided (columns of one (b, s,
  /// h + 2 g d) tensor). `probabilities` (b, heads, s, s) may be empty; otherwise it receives the
  /// softmax, with zeros above the diagonal.
  Kernel<void(Queue, In q, In k, In v, int heads, Out y, Out32 lse, Out32 probabilities)>
      attention_forward;
  /// Computes dq (b, s, h), dk and dv (b, s, g d), strided, from dy (b, s, h) and the forward
  /// pass's inputs and outputs. If `probabilities` is empty, the kernel recomputes the
  /// probabilities from `lse`, which takes one more matrix product; otherwise `lse` may be empty.
  /// The results are bitwise identical in both cases.
  Kernel<void(Queue, In dy, In q, In k, In v, In y, In32 lse, In32 probabilities, int heads, Out dq,
              Out dk, Out dv)>
      attention_backward;

  // -- attention in blocks: the keys of one softmax are on several ranks --------------------------
  // Unless it is empty, `visible` (b, s, 2) i32 masks documents: row i of q sees only those of the
  // block's keys that are among rows [begin, end) of k, where visible[·, i] holds begin and end. If
  // begin >= end, it sees none. The block must not be causal. A begin or end outside [0, s'] throws
  // std::out_of_range on the CPU; a GPU clamps it.

  /// y (b, queries, h) = softmax(q kᵀ / √d) v over the block's queries and keys only, with the
  /// rows' log-sum-exps in `lse` (b, heads, queries). q is (b, s, h), k and v are (b, s', g d), all
  /// strided. A query that sees no key has y = 0 and lse = -∞.
  Kernel<void(Queue, In q, In k, In v, int heads, const AttentionBlock&, Indices visible, Out y,
              Out32 lse)>
      attention_block_forward;
  /// Merges y_part (b, n, h) and lse_part (b, heads, n), the same queries' attention to other keys,
  /// into rows [first, first + n) of every sequence of y (b, s, h) and lse (b, heads, s). With L =
  /// log(exp(lse) + exp(lse_part)): y = exp(lse - L) y + exp(lse_part - L) y_part, lse = L. If both
  /// are -∞, y is 0 and lse stays -∞.
  Kernel<void(Queue, In y_part, In32 lse_part, int heads, std::int64_t first, InOut y, InOut32 lse)>
      attention_merge;
  /// Adds the block's part of the gradients to dq (b, s, h), dk and dv (b, s', g d), all strided.
  /// dy, y (b, s, h) and lse (b, heads, s) are those of the complete softmax, merged over all keys.
  Kernel<void(Queue, In dy, In q, In k, In v, In y, In32 lse, int heads, const AttentionBlock&,
              Indices visible, InOut dq, InOut dk, InOut dv)>
      attention_block_backward;

  // -- embedding ----------------------------------------------------------------------------------
  /// x (b, s, h) = tokens_table[tokens] + positions_table[0 .. s), with tokens (b, s) i32,
  /// tokens_table (V, h), positions_table (at least s, h). A token outside [0, V) throws
  /// std::out_of_range on the CPU; on a GPU, its row of x is just the position embedding.
  Kernel<void(Queue, Indices tokens, In tokens_table, In positions_table, Out x)> embedding_forward;
  /// In ascending order of (b, s), adds each row of dx (b, s, h) to the gradients of the two table
  /// rows from which embedding_forward computed that row of x.
  Kernel<void(Queue, Indices tokens, In dx, InOut dtokens_table, InOut dpositions_table)>
      embedding_backward;

  /// Computes one rank's term of embedding_forward's result; the sum over ranks is the result.
  /// `tokens_table` (rows, h) holds the rows of the tokens in `part`, and other tokens add nothing.
  /// `positions_table` may be empty, because only one rank may add the positions.
  Kernel<void(Queue, Indices tokens, VocabularyPart part, In tokens_table, In positions_table,
              Out x)>
      embedding_part_forward;
  /// Adds each row of dx (b, s, h) to the gradient of its token's row, if the token is in `part`,
  /// and to that of its position's row, in ascending order of (b, s).
  Kernel<void(Queue, Indices tokens, VocabularyPart part, In dx, InOut dtokens_table,
              InOut dpositions_table)>
      embedding_part_backward;

  // -- loss ---------------------------------------------------------------------------------------
  // logits and dlogits are strided.

  /// losses (N) = -log softmax(logits (N, V))[targets (N) i32]; lse (N) is kept for the backward
  /// pass.
  Kernel<void(Queue, In logits, Indices targets, Out32 losses, Out32 lse)> cross_entropy_forward;
  /// dlogits (N, V) = (softmax(logits) - onehot(targets)) * scale. dlogits may be logits.
  Kernel<void(Queue, In logits, Indices targets, In32 lse, float scale, Out dlogits)>
      cross_entropy_backward;

  /// Computes three statistics (3, N) of one rank's columns of the logits (N, columns): each row's
  /// maximum m, its Σ exp(logit - m), and its target's logit, which is 0 if the target is not in
  /// `part`. Padding is not read. With no tokens in `part`, m is -∞ and the sum 0.
  Kernel<void(Queue, In logits, Indices targets, VocabularyPart part, Out32 statistics)>
      cross_entropy_part_forward;
  /// Merges the ranks' `statistics` (ranks, 3, N), in order, into cross_entropy_forward's results.
  Kernel<void(Queue, In32 statistics, Out32 losses, Out32 lse)> cross_entropy_merge;
  /// Computes one rank's columns of cross_entropy_backward's result, and zeros for padding. dlogits
  /// may be logits.
  Kernel<void(Queue, In logits, Indices targets, VocabularyPart part, In32 lse, float scale,
              Out dlogits)>
      cross_entropy_part_backward;

  // -- experts ------------------------------------------------------------------------------------
  // An index out of range throws std::out_of_range on the CPU; on a GPU, the behaviour is
  // undefined.

  /// The router of a mixture of experts: probabilities (N, E) = softmax(logits (N, E)), and for
  /// each row the k most probable experts (N, k), most probable first. Of equally probable experts,
  /// the one with the lower index comes first. `gaps` (N) is the k-th probability minus the next
  /// one, or 1 if k = E: how far the choice is from a tie.
  Kernel<void(Queue, In logits, Out32 probabilities, OutIndices experts, Out32 gaps)>
      router_forward;
  /// Computes dlogits (N, E) from dweights (N, k), the gradients of the chosen probabilities, and
  /// `balance` (E), the gradient of every row's probabilities through the load-balance loss.
  Kernel<void(Queue, In32 probabilities, Indices experts, In32 dweights, In32 balance, Out dlogits)>
      router_backward;
  /// Row i of y (M, h) = row rows[i] of x (N, h). A row may be taken several times or never.
  Kernel<void(Queue, In x, Indices rows, Out y)> gather_rows;
  /// Row n of y (N, h) = Σ_j w[n, j] * x[slots[n, j]], in ascending j, with x (M, h) and slots (N,
  /// k). A slot of -1 adds nothing. w[n, j] is probabilities[n, experts[n, j]], or 1 if
  /// `probabilities` (N, E) is empty.
  Kernel<void(Queue, In x, Indices slots, In32 probabilities, Indices experts, Out y)> combine_rows;
  /// The gradients of a weighted combine_rows: dx[slots[n, j]] = w[n, j] * dy[n], and dweights[n,
  /// j] = dy[n] · x[slots[n, j]], or 0 if the slot is -1. Each of the M rows of dx must occur in
  /// `slots` exactly once.
  Kernel<void(Queue, In dy, In x, Indices slots, In32 probabilities, Indices experts, Out dx,
              Out32 dweights)>
      combine_rows_backward;

  // -- elementwise --------------------------------------------------------------------------------
  /// y = a + b; y may be a or b.
  Kernel<void(Queue, In a, In b, Out y)> add;
  Kernel<void(Queue, InOut x, float factor)> scale;
  /// Sets every element of each view to `value`.
  Kernel<void(Queue, Outs xs, float value)> fill;
  /// Copies elements between two strided views of the same dtype; any dtype is allowed.
  Kernel<void(Queue, In from, Out to)> copy;
  /// Like copy, but between any two floating-point types: widening is exact, narrowing rounds to
  /// nearest, ties to even. `from` and `to` must not overlap.
  Kernel<void(Queue, In from, Out to)> convert;

  // -- optimizer ----------------------------------------------------------------------------------
  /// Updates each tensor's parameter, momentum and variance in place from its gradient.
  Kernel<void(Queue, std::vector<AdamWTensor>, const AdamWStep&)> adamw;

  // For each of n views, these kernels write one double to memory on the device, where further work
  // can use it, or the host can read all of them at once. `sums` is (n, 2): there is no dtype of
  // 8 bytes, so each row holds the halves of a double. It must be aligned to 8 bytes.

  /// The sum of each view's elements, accumulated in double in a fixed order (losses).
  Kernel<void(Queue, Ins, Out32 sums)> sums;
  /// The sum of the squares, accumulated in double in a fixed order (gradient norms).
  Kernel<void(Queue, Ins, Out32 sums)> sums_of_squares;
  /// The number of elements that are ∞ or NaN. Loss scaling requires that there are none.
  Kernel<void(Queue, Ins, Out32 sums)> counts_of_not_finite;
};

/// Returns the CPU kernels: a library's matrix products (kernels/cpu/gemm.h) and vectorised loops,
/// each on the calling thread.
const Kernels& cpu_kernels();

/// Returns the library that computes the CPU's matrix products and the instruction set that it uses
/// here, such as "oneDNN 2.6.3, AVX2".
std::string cpu_kernels_library();

}  // namespace lockstep
