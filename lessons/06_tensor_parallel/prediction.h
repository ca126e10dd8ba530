#pragma once

#include <algorithm>
#include <set>

#include "core/plan/prediction.h"
#include "lessons/02_data_parallel/prediction.h"
#include "lessons/06_tensor_parallel/activations.h"

namespace lockstep {

/// Sizes of one microbatch on t tensor-parallel ranks that hold the whole model.
struct TensorSizes {
  TensorSizes(const Plan& plan, const Place& place)
      : t(place.size(Axis::tp)),
        tokens(static_cast<std::int64_t>(plan.microbatch_size(plan.batch.microbatches)) *
               plan.model().sequence),
        layers(plan.model().layers),
        whole(width_of(plan) * tokens * plan.model().hidden),
        part(whole / t),
        mlp(width_of(plan) * tokens * plan.model().mlp_width() / t),
        inner(width_of(plan) * tokens * plan.model().mlp_inner_width() / t),
        qkv(width_of(plan) * tokens * plan.model().qkv_width() / t) {}

  int t;                ///< ranks along tp
  std::int64_t tokens;  ///< N
  std::int64_t layers;
  std::int64_t whole;  ///< F: bytes of a tensor between two layers, N h elements
  std::int64_t part;   ///< F/t, in bytes
  // A rank's bytes of the MLP's activation and of fc's output, in GPT-2 4 F/t each, and of queries,
  // keys and values, in GPT-2 3 F/t.
  std::int64_t mlp, inner, qkv;

  /// Bytes of mean and rstd, or of losses and log-sum-exps, of all N tokens.
  std::int64_t statistics() const { return 8 * tokens; }
  /// Bytes that the loss gathers: three f32 per token and rank.
  std::int64_t gathered_by_loss() const { return t > 1 ? 12 * tokens * t : 0; }
  /// Bytes that one rank sends for this gather, per microbatch.
  std::int64_t loss_sends() const { return gathered_by_loss() / t * (t - 1); }
};

/// Sets the peaks of parameters, gradients and optimizer states: the slices that the rank stores.
inline void set_states(Predicted& predicted, const Plan& plan, const Place& place) {
  std::int64_t parameters = 0, gradients = 0, optimizer = 0;
  std::set<int> counted;
  for (const StoredUnit& unit : plan.units(place, place.only_stage()))
    for (const StoredParameter& parameter : unit.parameters) {
      const std::int64_t elements = parameter.slice.local().elements();  // with padding
      const bool again = !counted.insert(parameter.order).second;
      if (!again) parameters += width_of(plan) * elements;
      if (parameter.frozen) continue;
      gradients += width_of(plan) * elements;  // a table used twice has two gradients
      if (!again) optimizer += (is_narrow(parameter.dtype) ? 12 : 8) * elements;
    }
  predicted.peak_bytes[MemoryCategory::parameters] = parameters;
  predicted.peak_bytes[MemoryCategory::gradients] = gradients;
  predicted.peak_bytes[MemoryCategory::optimizer] = optimizer;
}

/// Bytes that a block saves for one microbatch, and bytes that the head saves.
inline std::int64_t tensor_saved_per_block(const TensorSizes& sizes, const GptConfig& config,
                                           const Divisors& parts) {
  return static_cast<std::int64_t>(
      activation_bytes(block_activations(config), sizes.tokens, parts));
}
inline std::int64_t tensor_saved_by_head(const TensorSizes& sizes, const GptConfig& config,
                                         const Divisors& parts) {
  return static_cast<std::int64_t>(
      activation_bytes(head_activations(config, sizes.t), sizes.tokens, parts));
}

/// Returns the peak of the activations, in bytes: the tensors that all blocks and the head save (in
/// GPT-2 4 F + 12 F/t per block, 4 N statistics and a N/t log-sum-exps: activations.h), and the
/// additional memory at the larger of two moments of the backward pass.
inline std::int64_t tensor_activations(const TensorSizes& sizes, const GptConfig& config) {
  const Divisors parts = tensor_divisors(sizes.t);
  const std::int64_t F = sizes.whole, F_t = sizes.part;
  const std::int64_t head = tensor_saved_by_head(sizes, config, parts);
  // The head's dx, once the losses and their log-sum-exps are released.
  const std::int64_t in_head = F - sizes.statistics();
  // In the last block's MLP, once the head's saved tensors are released: dy and the gradient of the
  // projection's input (sizes.mlp, in GPT-2 4 F/t), or, with that input released, dy and fc's dx
  // beside the gradient of fc's output. With a very thin MLP, the moment is in the block's
  // attention, with the gradients of q, k and v.
  const std::int64_t in_attention =
      sizes.qkv + F_t - F - sizes.mlp - sizes.inner - 4 * config.norm_vectors() * sizes.tokens;
  const std::int64_t in_block = std::max({F + sizes.mlp, 2 * F - sizes.mlp, in_attention}) - head;
  return sizes.layers * tensor_saved_per_block(sizes, config, parts) + head +
         std::max({std::int64_t{0}, in_head, in_block});
}

/// Predicts one step of one rank with the whole model on each tensor-parallel group. A block has
/// four all-reduces of N h elements, g twice in the forward pass and f twice in the backward pass:
/// 8 b s h (t-1)/t elements if t divides N h. The embedding's g and the head's f add one each. The
/// loss gathers its statistics.
inline Predicted predict_tensor_parallel(const Plan& plan, const Place& place) {
  const std::int64_t m = plan.batch.microbatches, width = width_of(plan);
  const TensorSizes sizes{plan, place};
  const std::int64_t exchanged = sizes.tokens * plan.model().hidden;
  DefaultCollectives collectives{plan, place, Axis::tp};
  Predicted predicted;
  predicted.bytes_sent[Operation::all_reduce] =
      m * width * (4 * sizes.layers + 2) * collectives.all_reduce_sends(exchanged);
  predicted.bytes_sent[Operation::all_gather] = m * sizes.loss_sends();

  set_states(predicted, plan, place);
  predicted.peak_bytes[MemoryCategory::activations] = tensor_activations(sizes, plan.model());
  predicted.peak_bytes[MemoryCategory::communication] = std::max(
      width * collectives.scratch(Operation::all_reduce, exchanged), sizes.gathered_by_loss());
  return predicted;
}

}  // namespace lockstep
