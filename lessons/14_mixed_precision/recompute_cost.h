#pragma once

#include <algorithm>
#include <cstdint>

#include "core/plan/footprint.h"
#include "lessons/14_mixed_precision/recompute.h"

namespace lockstep {

/// Bytes of activations that one microbatch of `batch` sequences saves per block, with N = b s
/// tokens. The N h terms are elements of config.dtype, all others are f32. core/plan/footprint.h
/// lists the tensors, those of a Llama too; in GPT-2:
///
///   none        16 N h + 4 N + a s N   the core keeps the probabilities (a s N) instead of the
///                                      log-sum-exps (a N)
///   selective   16 N h + 4 N + a N     as in Footprint
///   full        N h                    the block's input; the block being recomputed also holds
///                                      the rest of selective's, 15 N h + (4 + a) N
///
/// Korthikanti 2022 gives 34 N h + 5 a s N, 34 N h and 2 N h bytes, in 16 bits and with dropout.
/// Dropout accounts for 2 N h (two one-byte masks) and 3 a s N (a mask, and a second copy of the
/// probabilities after it). Without it, 32 N h + 2 a s N bytes remain, or 16 N h + a s N elements.
/// This equals `none` except for LayerNorm's mean and rstd, 4 N, which the paper neglects. (The
/// paper's probabilities are also 16 bits wide; Lockstep's are f32 for every dtype.)
inline std::int64_t recompute_saved_per_block(const GptConfig& config, int batch, Recompute mode) {
  constexpr std::int64_t f32 = 4;
  const Footprint usual{config, StageLayers::whole(config), batch};
  const std::int64_t N = static_cast<std::int64_t>(batch) * config.sequence;
  switch (mode) {
    case Recompute::none:
      return usual.block + f32 * config.heads * N * (config.sequence - 1);
    case Recompute::selective:
      return usual.block;
    case Recompute::full:
      return usual.boundary;
  }
  return 0;
}

/// Bytes of activations of one microbatch of the whole model. The allocator agrees to the byte
/// (tests/lessons/test_recompute.cpp).
struct RecomputeBytes {
  RecomputeBytes(const GptConfig& config, int batch, Recompute mode) {
    const Footprint usual{config, StageLayers::whole(config), batch};
    const std::int64_t block = recompute_saved_per_block(config, batch, mode);
    saved = config.layers * block + usual.head;
    peak = saved + usual.peak(1) - usual.stash;
    if (mode != Recompute::full) return;
    // The last block's backward pass comes first, when the head has released its saved tensors. The
    // block holds the rest of its tensors again, and then needs as much as without recomputation:
    // dy, and 4 N h elements in its MLP (or, if that is thin, at first dy and the output).
    const std::int64_t rest = usual.block - block;
    const std::int64_t working = std::max(usual.block_working, 2 * usual.boundary);
    peak = std::max(peak, saved - usual.head + rest + working);
  }

  std::int64_t saved = 0;  ///< kept from the forward pass to the backward pass
  std::int64_t peak = 0;
};

/// The cost of recomputation: FLOPs of one microbatch beyond those of Recompute::none. Counts
/// matrix products only, with causal attention counted half, as in core/model/ops.h.
///
/// Selective mode recomputes q kᵀ, one product per head: b s² h per block. Full mode runs the
/// forward pass again, 24 N h² for GPT-2's four Linears and 2 b s² h for attention, and also
/// recomputes the probabilities, because its blocks use selective recomputation too.
inline double extra_flops(const GptConfig& config, int blocks, int batch, Recompute mode) {
  const double b = batch, s = config.sequence, h = config.hidden;
  const double product = b * s * s * h;
  const double forward = 2 * b * s * config.matrix_elements_per_block() + 2 * product;
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

/// FLOPs of one microbatch of the whole model without recomputation and with nothing frozen.
inline double model_flops(const GptConfig& config, int batch) {
  return static_cast<double>(batch) * config.sequence * config.flops_per_token();
}

}  // namespace lockstep
