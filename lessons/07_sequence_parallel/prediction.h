#pragma once

#include <algorithm>

#include "lessons/03_zero_1/prediction.h"
#include "lessons/06_tensor_parallel/prediction.h"

namespace lockstep {

/// The divisors of sequence parallelism. Only the inputs of column-parallel layers stay whole, and
/// not even they if the backward pass gathers them again.
inline Divisors sequence_divisors(int t, bool regather) {
  return {.features = t, .tokens = t, .gathered = regather ? t : 1};
}

/// The memory of one rank's stage under sequence parallelism, in bytes. The allocator agrees to the
/// byte (tests/lessons/test_sequence_parallel.cpp).
///
/// With F = N h elements, a block saves 2 F + 14 F/t, or 16 F/t with `regather`, and all statistics
/// and log-sum-exps are divided by t. An exchange has a whole tensor and a shard at the same time.
struct SequenceFootprint : TensorFootprint {
  SequenceFootprint(const Plan& plan, const Place& place, int stage, int microbatches,
                    bool regather)
      : TensorFootprint(plan, place, stage, microbatches) {
    if (t == 1) return;
    const GptConfig& config = plan.model();
    count_stash(config, sequence_divisors(t, regather));
    boundary = part;
    const std::int64_t kept = regather ? part : whole;  // of a column-parallel layer's input
    const std::int64_t mean_rstd = statistics() / t;
    pending = layers.count() * (2 * whole + 2 * kept + 12 * part) +
              (layers.head ? kept + logits : 0) + (layers.embedding ? part : 0);
    // The MLP's projection gathers its dy (F, beside the shard) and computes 4 F/t.
    const std::int64_t mlp = whole + 5 * part;
    block_forward = whole + part;  // the projection's output and its shard
    block_backward = mlp;
    // The head's Linear computes its dx (F) once the losses are released, and scatters it. With
    // `regather` its saved x is only a shard, so that the forward pass also has x beside it, and
    // the weight's gradient is computed after the shard of dx.
    const std::int64_t head_backward = whole - statistics() + (regather ? part : 0);
    if (layers.head) {
      forward_working =
          std::max(std::int64_t{0}, regather ? whole - statistics() : part - logits - statistics());
      backward_working = std::max({std::int64_t{0}, head_backward, mlp - head});
    } else {
      forward_working = block_forward;
      backward_working = mlp;
    }

    // The input half keeps the gathered dy of both projections, so the peak may be in the lowest
    // block.
    const std::int64_t log_sums = 4 * tokens * config.heads / t;
    const std::int64_t base = layers.head ? -statistics() - mean_rstd : part;
    const std::int64_t projection = whole + 4 * part;  // dy and dx
    const std::int64_t fc = 2 * whole + part;          // the projection's dy, dx and its shard
    const std::int64_t core = 2 * whole + 3 * part - mean_rstd;
    const std::int64_t qkv = 3 * whole - mean_rstd - log_sums;
    const std::int64_t each = 2 * (whole - part - mean_rstd) - log_sums;  // kept per block
    backward_input_working = base + std::max({projection, fc, core, qkv}) +
                             std::max(std::int64_t{0}, (layers.count() - 1) * each);
    if (layers.head)
      backward_input_working =
          std::max({std::int64_t{0}, whole + part - statistics(), backward_input_working});
  }
};

/// Elements that a rank sends per layer and microbatch: the reduce-scatters and all-gathers of N h
/// elements that replace four all-reduces, 8 b s h (t-1)/t. With `regather`, two more all-gathers:
/// 10 b s h (t-1)/t.
struct SequenceSends {
  std::int64_t reduce_scatter = 0;
  std::int64_t all_gather = 0;
};
inline SequenceSends sequence_layer_sends(const TensorFootprint& footprint, std::int64_t hidden,
                                          bool regather) {
  const std::int64_t half = ring_half_sends(footprint.tokens * hidden, footprint.t);
  return {.reduce_scatter = 4 * half, .all_gather = (regather ? 6 : 4) * half};
}

/// Elements that a rank sends per microbatch. The embedding scatters forward and gathers backward,
/// the head the reverse.
inline SequenceSends sequence_sends(const TensorFootprint& footprint, std::int64_t hidden,
                                    bool regather) {
  SequenceSends sends = sequence_layer_sends(footprint, hidden, regather);
  const StageLayers& layers = footprint.layers;
  const std::int64_t half = ring_half_sends(footprint.tokens * hidden, footprint.t);
  const std::int64_t ends = (layers.embedding ? 1 : 0) + (layers.head ? 1 : 0);
  sends.reduce_scatter = layers.count() * sends.reduce_scatter + ends * half;
  sends.all_gather =
      layers.count() * sends.all_gather + (ends + (regather && layers.head ? 1 : 0)) * half;
  return sends;
}

/// Predicts one step of one rank with the whole model on each tensor-parallel group. Once per step,
/// each unit's LayerNorms sum their gradients: 4 h elements per block, and 2 h for the head.
inline Predicted predict_sequence_parallel(const Plan& plan, const Place& place, bool regather) {
  const int m = plan.batch.microbatches;
  const std::int64_t width = width_of(plan), h = plan.model().hidden;
  const SequenceFootprint footprint{plan, place, place.only_stage(), m, regather};
  const std::int64_t blocks = footprint.layers.count();
  Predicted predicted = predict_memory(footprint);
  const SequenceSends sends = sequence_sends(footprint, h, regather);
  predicted.bytes_sent[Operation::reduce_scatter] = m * width * sends.reduce_scatter;
  predicted.bytes_sent[Operation::all_gather] =
      m * (width * sends.all_gather + loss_sends(footprint));
  const auto sums = [&](std::int64_t elements) {
    return ring_all_reduce_sends(elements, footprint.t, place.coordinate(Axis::tp));
  };
  predicted.bytes_sent[Operation::all_reduce] = width * (blocks * sums(4 * h) + sums(2 * h));

  const std::int64_t summed = footprint.t > 1 ? 4 * h : 0;  // LayerNormSums' buffer
  predicted.peak_bytes[MemoryCategory::communication] = std::max(
      {width * ring_scratch(footprint.tokens * h, plan, footprint.t), loss_statistics(footprint),
       width * (summed + ring_scratch(summed, plan, footprint.t))});
  return predicted;
}

}  // namespace lockstep
