#pragma once

#include <algorithm>
#include <cstdint>

#include "core/plan/footprint.h"
#include "lessons/14_mixed_precision/recompute.h"

namespace lockstep {

/// The memory that recomputation saves: one stage's activations, in bytes. The formulas match the
/// allocator's measurements to the byte (tests/lessons/test_recompute.cpp).
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
struct RecomputeFootprint : Footprint {
  RecomputeFootprint(const GptConfig& config, const StageLayers& stage, int batch, Recompute mode)
      : Footprint(config, stage, batch) {
    constexpr std::int64_t f32 = 4;
    const std::int64_t N = static_cast<std::int64_t>(batch) * config.sequence;
    const std::int64_t a = config.heads, blocks = stage.count();
    if (mode == Recompute::none) stash += f32 * blocks * (a * config.sequence * N - a * N);
    if (mode != Recompute::full) return;

    const std::int64_t rest = 15 * boundary + f32 * (4 + a) * N;  // boundary is N h
    const std::int64_t head = stage.head ? stash - blocks * (boundary + rest) : 0;
    stash -= blocks * rest;
    // Memory peaks in the forward pass when the last block has computed its output (N h) and is
    // about to release its stash; or, on the last stage, after the head, if the head adds more than
    // the last block's `rest` and output.
    forward_working = std::max(forward_working, rest + boundary - head);
    // The last block's backward comes first, while the inputs of all other blocks are still kept.
    // This backward adds the rest of its block's stash and then, as without recomputation, 5 N h.
    // The head's stash has been released by then. (`pending` does not change: between the halves,
    // the tensors for the weight half exist for all blocks.)
    backward_working = std::max(backward_working, rest + 5 * boundary - head);
    // If the halves run separately, nothing is released before the weight half. The peak is then in
    // the first block: by then each other block holds 16 N h instead of N h, and the head has
    // released N h + 4 N.
    backward_input_working = (blocks - 1) * 15 * boundary + rest +
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
