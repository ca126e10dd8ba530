#pragma once

#include <algorithm>

#include "lessons/03_zero_1/prediction.h"
#include "lessons/06_tensor_parallel/prediction.h"

namespace lockstep {

/// The divisors of sequence parallelism. Only the inputs of column-parallel layers stay whole,
/// unless the backward pass gathers them again.
inline Divisors sequence_divisors(int t, bool regather) {
  return {.features = t, .tokens = t, .gathered = regather ? t : 1};
}

/// Returns the peak of the activations, in bytes: the tensors that all blocks and the head save (in
/// GPT-2 2 F + 14 F/t per block, or 16 F/t with `regather`, and 1/t of the statistics and
/// log-sum-exps), and the additional memory at the larger of two moments of the backward pass. An
/// exchange holds a whole tensor and a shard at the same time.
inline std::int64_t sequence_activations(const TensorSizes& sizes, const GptConfig& config,
                                         bool regather) {
  if (sizes.t == 1) return tensor_activations(sizes, config);
  const Divisors parts = sequence_divisors(sizes.t, regather);
  const std::int64_t F = sizes.whole, F_t = sizes.part;
  const std::int64_t head = tensor_saved_by_head(sizes, config, parts);
  // The head's dx, F, once the losses and their log-sum-exps are released. With `regather`, the
  // weight's gradient is computed after dx has been scattered, so that the shard of dx is in
  // memory, too.
  const std::int64_t in_head = F - sizes.statistics() + (regather ? F_t : 0);
  // In the last block's MLP: the projection gathers its dy (F, beside the shard), and computes the
  // gradient of its input (sizes.mlp, in GPT-2 4 F/t). If the MLP is very thin, fc's dx (F) and its
  // shard take more.
  const std::int64_t in_block = F + F_t + std::max(sizes.mlp, F_t - sizes.mlp) - head;
  return sizes.layers * tensor_saved_per_block(sizes, config, parts) + head +
         std::max({std::int64_t{0}, in_head, in_block});
}

/// Predicts one step of one rank with the whole model on each tensor-parallel group. Four
/// reduce-scatters and four all-gathers of N h elements per block replace lesson 6's all-reduces:
/// still 8 b s h (t-1)/t elements, or 10 b s h (t-1)/t with `regather`, which gathers two more
/// tensors per block. The embedding scatters forward and gathers backward, the head the reverse.
/// Once per step, each unit's norms sum their gradients: 4 h elements per block, and 2 h for the
/// head (in a Llama, half of that).
inline Predicted predict_sequence_parallel(const Plan& plan, const Place& place, bool regather) {
  const std::int64_t m = plan.batch.microbatches, width = width_of(plan);
  const std::int64_t h = plan.model().hidden;
  const TensorSizes sizes{plan, place};
  const std::int64_t exchanged = sizes.tokens * h, half = ring_half_sends(exchanged, sizes.t);
  DefaultCollectives collectives{plan, place, Axis::tp};
  const auto sums = [&](std::int64_t elements) { return collectives.all_reduce_sends(elements); };
  Predicted predicted;
  predicted.bytes_sent[Operation::reduce_scatter] = m * width * (4 * sizes.layers + 2) * half;
  predicted.bytes_sent[Operation::all_gather] =
      m * (width * (4 * sizes.layers + 2 + (regather ? 2 * sizes.layers + 1 : 0)) * half +
           sizes.loss_sends());
  const std::int64_t norm = plan.model().norm_vectors() * h;
  predicted.bytes_sent[Operation::all_reduce] =
      width * (sizes.layers * sums(2 * norm) + sums(norm));

  set_states(predicted, plan, place);
  predicted.peak_bytes[MemoryCategory::activations] =
      sequence_activations(sizes, plan.model(), regather);
  const std::int64_t summed = sizes.t > 1 ? 2 * norm : 0;  // NormSums' buffer
  predicted.peak_bytes[MemoryCategory::communication] = std::max(
      {width * collectives.scratch(Operation::reduce_scatter, exchanged), sizes.gathered_by_loss(),
       width * (summed + collectives.scratch(Operation::all_reduce, summed))});
  return predicted;
}

}  // namespace lockstep
