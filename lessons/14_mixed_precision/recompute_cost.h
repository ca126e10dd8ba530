#pragma once

#include <algorithm>
#include <cstdint>

#include "core/plan/footprint.h"
#include "lessons/14_mixed_precision/recompute.h"

namespace lockstep {

/// Changes a stage's activations, in bytes, from those of Recompute::selective to those of `mode`.
/// The formulas match the allocator's measurements to the byte (tests/lessons/test_recompute.cpp).
///
/// A microbatch stashes the following per block, with N = b s tokens. The N h terms are elements of
/// config.dtype, all others are f32. core/plan/footprint.h lists the tensors:
///
///   none        16 N h + 4 N + a s N   the core keeps the probabilities (a s N) instead of the
///                                      log-sum-exps (a N)
///   selective   16 N h + 4 N + a N     as in Footprint
///   full        N h                    the block's input; the block being recomputed also holds
///                                      the rest of selective's stash, 15 N h + (4 + a) N
///
/// Korthikanti 2022 gives 34 N h + 5 a s N, 34 N h and 2 N h bytes, in 16 bits and with dropout.
/// Dropout accounts for 2 N h (two one-byte masks) and 3 a s N (a mask, and a second copy of the
/// probabilities after it). Without it, 32 N h + 2 a s N bytes remain, or 16 N h + a s N elements.
/// This equals `none` except for LayerNorm's mean and rstd, 4 N, which the paper neglects. (The
/// paper's probabilities are also 16 bits wide; Lockstep's are f32 for every dtype.)
///
/// `stage` has `blocks` blocks, and `kept` is probabilities_kept() of one.
inline void recompute(Footprint& stage, int blocks, Recompute mode, std::int64_t kept) {
  if (mode == Recompute::none) {
    stage.block += kept;
    stage.stash += blocks * kept;
  }
  if (mode != Recompute::full) return;
  const std::int64_t rest = stage.block - stage.boundary;
  stage.stash -= blocks * rest;
  // Memory peaks in the forward pass when the last block has computed its output and is about to
  // release its stash; or, on the last stage, after the head, if the head adds more than the last
  // block's `rest` and output.
  stage.forward_working = std::max(stage.forward_working, rest + stage.block_forward - stage.head);
  // The last block's backward comes first, while the inputs of all other blocks are still kept.
  // This backward adds the rest of its block's stash, with the discarded output beside dy, and
  // then needs as much as without recomputation. The head's stash has been released by then.
  // (`pending` does not change: between the halves, the tensors for the weight half exist for all
  // blocks.)
  const std::int64_t again = stage.boundary + stage.block_forward;
  stage.backward_working =
      std::max(stage.backward_working, rest + std::max(again, stage.block_backward) - stage.head);
}

/// Returns the bytes by which the probabilities of N tokens, (heads, s) each, exceed their
/// log-sum-exps.
inline std::int64_t probabilities_kept(std::int64_t tokens, std::int64_t heads, std::int64_t s) {
  constexpr std::int64_t f32 = 4;
  return f32 * heads * tokens * (s - 1);
}

/// The memory of a stage with whole layers.
struct RecomputeFootprint : Footprint {
  RecomputeFootprint(const GptConfig& config, const StageLayers& stage, int batch, Recompute mode)
      : Footprint(config, stage, batch) {
    constexpr std::int64_t f32 = 4;
    const std::int64_t N = static_cast<std::int64_t>(batch) * config.sequence;
    const std::int64_t blocks = stage.count();
    recompute(*this, stage.count(), mode, probabilities_kept(N, config.heads, config.sequence));
    if (mode != Recompute::full) return;
    // If the halves run separately, nothing is released before the weight half. The peak is then in
    // the first block: by then each other block holds 16 N h instead of N h, and the head has
    // released N h + 4 N.
    backward_input_working = (blocks - 1) * 15 * boundary + block - boundary +
                             (stage.head ? 4 * boundary - f32 * 4 * N : 5 * boundary);
  }
};

/// The cost of recomputation: FLOPs of one microbatch beyond those of Recompute::none. Counts
/// matrix products only, with causal attention counted half, as in core/model/ops.h.
///
/// Selective mode recomputes q kᵀ, one product per head: b s² h per block. Full mode runs the
/// forward pass again, 24 N h² for the four Linears and 2 b s² h for attention, and also recomputes
/// the probabilities, because its blocks use selective recomputation too.
inline double extra_flops(const GptConfig& config, int blocks, int batch, Recompute mode) {
  const double b = batch, s = config.sequence, h = config.hidden;
  const double product = b * s * s * h;
  const double forward = 24 * b * s * h * h + 2 * product;
  switch (mode) {
    case Recompute::none:
      return 0;
    case Recompute::selective:
      return blocks * product;
    case Recompute::full:
      return blocks * (product + forward);
  }
  return 0;
}

/// FLOPs of one microbatch of the whole model without recomputation and with nothing frozen: three
/// times the forward pass's 24 N h² + 2 b s² h per block and 2 N h V for the head (Narayanan 2021,
/// without recomputation and with attention counted half).
inline double model_flops(const GptConfig& config, int batch) {
  const double b = batch, s = config.sequence, h = config.hidden;
  const double L = config.layers, V = config.vocabulary;
  return 3 * (L * (24 * b * s * h * h + 2 * b * s * s * h) + 2 * b * s * h * V);
}

}  // namespace lockstep
