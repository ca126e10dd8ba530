#pragma once

#include <algorithm>
#include <cstdint>

#include "core/plan/footprint.h"
#include "lessons/14_mixed_precision/recompute.h"

namespace lockstep {

/// What recomputation saves: one stage's activations, in bytes. The allocator agrees to the byte
/// (tests/lessons/test_recompute.cpp).
///
/// What a microbatch keeps of one block, for N = b s tokens, in elements of config.dtype (N h) and
/// in f32 (all others); the tensors are listed in core/plan/footprint.h:
///
///   none        16 N h + 4 N + a s N   the core keeps the probabilities (a s N) and not the
///                                      log-sum-exps (a N)
///   selective   16 N h + 4 N + a N     as Footprint says
///   full        N h                    the block's input; and of the one block that is worked on
///                                      the rest of what selective keeps, 15 N h + (4 + a) N
///
/// Korthikanti 2022 has 34 N h + 5 a s N bytes, 34 N h and 2 N h, in 16 bits and with dropout. Of
/// these, dropout is 2 N h (two masks of a byte) and 3 a s N (a mask, and the probabilities a
/// second time, after it). Without it 32 N h + 2 a s N bytes are left, which is 16 N h + a s N
/// numbers: ours, but for LayerNorm's mean and rstd, 4 N, which they leave out as small. (Their
/// probabilities are in 16 bits as well; ours in f32, whatever the dtype.)
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
    // Forward is at its highest when the last block is about to forget, its output (N h) beside it;
    // or, on the last stage, when the head has added more than that.
    forward_working = std::max(forward_working, rest + boundary - head);
    // The last block's backward comes first, when the inputs of all others are still there: its
    // rest, and then as without recomputation, 5 N h. What the head kept has gone by then. (pending
    // stays as it is: between the halves, the weight half's needs are all there, for all blocks.)
    backward_working = std::max(backward_working, rest + 5 * boundary - head);
    // Where the halves are apart, nothing goes before the weight half comes. So the first block is
    // the highest: by then each of the others holds 16 N h where it held N h, and of the head
    // N h + 4 N have gone.
    backward_input_working = (blocks - 1) * 15 * boundary + rest +
                             (stage.head ? 4 * boundary - f32 * 4 * N : 5 * boundary);
  }
};

/// What recomputation costs: FLOPs of one microbatch beyond those of Recompute::none, matrix
/// products only, causal attention counted half, as core/model/ops.h does.
///
/// Selective makes q kᵀ again, one product of every head: b s² h a block. Full makes a whole
/// forward again, 24 N h² of the four Linears and 2 b s² h of attention; and the probabilities as
/// well, since its blocks are selective ones.
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

/// FLOPs of one microbatch of the whole model, nothing frozen, without recomputation: three
/// times a forward's 24 N h² + 2 b s² h a block and 2 N h V of the head. (Narayanan 2021 without
/// recomputation, attention counted half.)
inline double model_flops(const GptConfig& config, int batch) {
  const double b = batch, s = config.sequence, h = config.hidden;
  const double L = config.layers, V = config.vocabulary;
  return 3 * (L * (24 * b * s * h * h + 2 * b * s * s * h) + 2 * b * s * h * V);
}

}  // namespace lockstep
