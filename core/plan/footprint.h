#pragma once

#include <cstdint>

#include "core/plan/stage_layers.h"

namespace lockstep {

/// What one stage's activations take, in bytes, as closed forms. The allocator agrees to the byte
/// (tests/plan/test_footprint.cpp).
///
/// With N = b s tokens a microbatch, a stash holds, in elements (of config.dtype, 4 or 2 bytes;
/// mean, rstd, log-sum-exps and losses are always f32):
///
///   ln_1     x             N h          ln_2     x             N h
///            mean, rstd    2 N                   mean, rstd    2 N
///   qkv      x             N h          fc       x             N h
///   core     q, k, v       3 N h        GELU     x             4 N h
///            y             N h          fc proj. x             4 N h
///            log-sum-exp   a N
///   proj.    x             (the core's y)
///
/// which is a block's 16 N h + (4 + a) N; and the head's
///
///   ln_f     x             N h          loss     logits        N V
///            mean, rstd    2 N                   losses, lse   2 N
///   lm_head  x             N h
///
/// 2 N h + N V + 4 N. The embedding keeps nothing but a View of the tokens. (Korthikanti 2022
/// counts 34 b s h bytes plus 5 b s² a for a block in 16 bits with dropout masks and stored
/// probabilities; here are neither masks nor probabilities, and LayerNorm's inputs are counted
/// there too.)
struct Footprint {
  /// For microbatches of `batch` (b) sequences of config.sequence tokens.
  Footprint(const GptConfig& config, const StageLayers& stage, int batch);

  std::int64_t boundary = 0;  ///< y or dy between two stages: N h elements
  std::int64_t stash = 0;     ///< from a microbatch's forward to its backward

  /// What remains in the stash when the input half of backward is done and the weight half is not.
  /// Of a block 16 N h: the Linears' x (1 + 1 + 1 + 4, the input of GELU and of the core no more)
  /// and their dy (3 + 1 + 4 + 1) — as much as before, but for the (4 + a) N. Of the head
  /// N h + N V, of the embedding N h.
  std::int64_t pending = 0;

  // The most there is during an action above the stashes of all microbatches held, the one that is
  // worked on counted with its full stash, and x or dy as soon as it is here.
  /// Forward only adds, so the most is at its end: the output, N h, where the stage has one.
  std::int64_t forward_working = 0;
  /// Both halves at once, and backward_input (which needs more only on the last stage). The most is
  /// in the uppermost block's Mlp: dy (N h), kept for the residual connection, and the gradient at
  /// 4 h (4 N h), when nothing of the block is released yet. On the last stage the head's share has
  /// gone before that: 5 N h - (2 N h + N V + 4 N), or, if that is less, N h - 2 N, when the head's
  /// Linear makes dx while dlogits stand where the logits were. Where backward_input keeps the
  /// head's x and dlogits for later: 4 N h - 4 N.
  std::int64_t backward_working = 0;
  std::int64_t backward_input_working = 0;

  /// The highest that MemoryCategory::activations reaches when `held` microbatches are forwarded,
  /// one after another, and then run backward: `held` is what a schedule holds at once (1F1B at
  /// most p, GPipe m).
  std::int64_t peak(int held) const;

  std::int64_t parameters = 0;  ///< bytes of the stage's parameters
  /// As many, but for what is frozen, and V h elements more where a tied head has both uses here.
  std::int64_t gradients = 0;
  /// AdamW: two f32 for each element that is not frozen, and with narrow weights a third, the
  /// master.
  std::int64_t optimizer = 0;
};

}  // namespace lockstep
