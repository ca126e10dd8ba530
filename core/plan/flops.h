#pragma once

#include "core/plan/gpt_config.h"

namespace lockstep {

// FLOPs of a training step per token, as publications count them: use these to compare a run with
// published figures. Publications count causal attention in full, 12 s h per block.
// GptConfig::flops_per_token() counts only the half that is computed, 6 s h. Neither counts norms,
// activation functions and biases. Frozen units count like all others.
//
// If a step of B sequences takes T seconds on n devices with a peak of X FLOP/s each, the
// utilization is
//
//     B s · FLOPs per token / (n X T)
//
// This is the model FLOPs utilization (MFU) if only the FLOPs that the model needs are counted, and
// the hardware FLOPs utilization (HFU) if recomputation is counted as well.

/// Returns the model FLOPs: 6 (L (matrix_elements_per_block() + 2 s h) + V h), three times those of
/// the forward pass. For a GPT-2, this is 72 L h² (1 + s/(6h) + V/(12 L h)) (Narayanan 2021 without
/// its recomputation; Korthikanti 2022, appendix A).
double published_flops_per_token(const GptConfig& config);

/// Returns the hardware FLOPs with selective recomputation: the model FLOPs, with those of
/// attention counted twice. For a GPT-2, this is 72 L h² (1 + s/(3h) + V/(12 L h)) (Korthikanti
/// 2022, appendix A; the HFU in its table 5 follow from this formula). The formula adds 12 s h per
/// block, three times the FLOPs of the two products that are recomputed, q kᵀ and the weighted sum
/// of the values.
double published_flops_per_token_with_selective_recomputation(const GptConfig& config);

/// Returns the hardware FLOPs with full recomputation, which repeats the forward pass of each
/// block: four thirds of the blocks' model FLOPs, and those of the head. For a GPT-2, this is
/// 96 L h² (1 + s/(6h) + V/(16 L h)) (Narayanan 2021).
double published_flops_per_token_with_full_recomputation(const GptConfig& config);

}  // namespace lockstep
