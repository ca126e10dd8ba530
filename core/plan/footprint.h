#pragma once

#include <cstdint>

#include "core/plan/stage_layers.h"

namespace lockstep {

/// Closed forms for the memory of one stage, in bytes: activations, parameters, gradients and
/// optimizer states. They match the allocator's measurements to the byte
/// (tests/plan/test_footprint.cpp).
///
/// With N = b s tokens per microbatch, a stash holds these elements (in config.dtype, 4 or 2 bytes;
/// mean, rstd, log-sum-exps and losses are always f32):
///
///   ln_1     x             N h          ln_2     x             N h
///            mean, rstd    2 N                   mean, rstd    2 N
///   qkv      x             N h          fc       x             N h
///   core     q, k, v       3 N h        GELU     x             4 N h
///            y             N h          fc proj. x             4 N h
///            log-sum-exp   a N
///   proj.    x             (the core's y)
/// in total 16 N h + (4 + a) N for a block. For the head:
///
///   ln_f     x             N h          loss     logits        N V
///            mean, rstd    2 N                   losses, lse   2 N
///   lm_head  x             N h
/// in total 2 N h + N V + 4 N.
///
/// In a Llama, a norm has no mean, k and v have g d columns each, and the MLP's inner tensors are
/// SwiGLU's x, 2 N f, and its output, N f: in total N (6 h + 2 g d + 3 f) + (2 + a) N for a block,
/// and 2 N h + N V + 3 N for the head. Rotary positions keep nothing.
///
/// The embedding keeps only a View of the tokens. (Korthikanti 2022
/// counts 34 b s h + 5 b s² a bytes per block, in 16 bits with dropout masks and stored
/// probabilities. Lockstep stores neither, and the formula also includes LayerNorm's inputs.)
struct Footprint {
  /// Computes the footprint for microbatches of `batch` (b) sequences of config.sequence tokens.
  Footprint(const GptConfig& config, const StageLayers& stage, int batch);

  std::int64_t boundary = 0;  ///< y or dy, as sent between two stages: N h elements
  std::int64_t stash = 0;     ///< kept from a microbatch's forward pass to its backward pass
  std::int64_t block = 0;     ///< a block's part of the stash
  std::int64_t head = 0;      ///< the head's part

  // Peak memory during an action, in addition to the stashes of all held microbatches. The current
  // microbatch is counted with its full stash, and x or dy are counted from their arrival.
  /// The forward pass only allocates, so its peak is at its end. The peak is the size of the
  /// output, N h, if the stage sends one.
  std::int64_t forward_working = 0;
  /// The memory that the backward pass of a block needs beyond its stash. The peak is in its MLP,
  /// before the block has released anything: dy (N h), which is kept for the residual connection,
  /// and the gradient of the MLP's activation (4 N h, or N f); together 5 N h in GPT-2. If f is
  /// very small, the peak is later: when fc computes its dx beside dy, or when attention's backward
  /// pass begins.
  std::int64_t block_working = 0;
  /// The peak of a whole stage is in its uppermost block. On the last stage the head's stash is
  /// already released by then, so the peak is that of block_working less `head`. It is at least 0,
  /// and at least N h elements less 2 N f32, which the head's Linear needs when it writes dx while
  /// dlogits occupy the logits' memory.
  std::int64_t backward_working = 0;

  /// Returns the peak of MemoryCategory::activations when `held` microbatches run their forward
  /// passes, one after another, and then their backward passes. `held` is the schedule's peak
  /// number of microbatches in flight (at most p for 1F1B, m for GPipe).
  std::int64_t peak(int held) const;

  std::int64_t parameters = 0;  ///< bytes of the stage's parameters
  /// Bytes of the gradients: the size of the parameters that are not frozen, plus V h elements if
  /// the embedding and a tied head are both on this stage.
  std::int64_t gradients = 0;
  /// AdamW: two f32 per trained element, plus an f32 master copy of 16-bit weights.
  std::int64_t optimizer = 0;
};

}  // namespace lockstep
