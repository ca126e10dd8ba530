#pragma once

#include <algorithm>
#include <set>

#include "core/plan/footprint.h"
#include "core/plan/prediction.h"
#include "lessons/02_data_parallel/prediction.h"
#include "lessons/06_tensor_parallel/activations.h"

namespace lockstep {

/// The memory of one rank's stage, in bytes, if its layers are divided among the ranks of the tp
/// axis. The allocator agrees to the byte (tests/lessons/test_tensor_parallel.cpp).
///
/// Let F = N h elements, for N tokens per microbatch and rank. Per block, the ranks save 4 F + 12
/// F/t elements, 4 N statistics and a N/t log-sum-exps (activations.h).
struct TensorFootprint : Footprint {
  TensorFootprint(const Plan& plan, const Place& place, int stage, int microbatches)
      : Footprint(plan.model(), plan.layers_of(stage), plan.microbatch_size(microbatches)),
        t(place.size(Axis::tp)),
        tokens(plan.boundary(microbatches).shape.rows()),
        layers(plan.layers_of(stage)) {
    const std::int64_t width = width_of(plan);
    whole = width * tokens * plan.model().hidden;
    part = whole / t;
    logits = width * tokens * part_of(plan.model().vocabulary, t);
    boundary = whole;
    count_states(plan, place, stage);
    count_activations(plan.model());
  }

  int t;                ///< ranks along tp
  std::int64_t tokens;  ///< N
  StageLayers layers;
  std::int64_t whole = 0;   ///< bytes of F
  std::int64_t part = 0;    ///< bytes of F/t
  std::int64_t logits = 0;  ///< bytes of this rank's logits

 protected:
  /// mean and rstd, or losses and log-sum-exps, of all tokens
  std::int64_t statistics() const { return 8 * tokens; }

  void count_stash(const GptConfig& config, const Divisors& parts) {
    const auto bytes = [&](const std::vector<SavedActivation>& saved) {
      return static_cast<std::int64_t>(activation_bytes(saved, tokens, parts));
    };
    head = layers.head ? bytes(head_activations(config, t)) : 0;
    block = bytes(block_activations(config));
    stash = layers.count() * block + head;
  }

 private:
  void count_states(const Plan& plan, const Place& place, int stage) {
    parameters = gradients = optimizer = 0;
    std::set<int> counted;
    const std::int64_t width = width_of(plan);
    for (const StoredUnit& unit : plan.units(place, stage))
      for (const StoredParameter& parameter : unit.parameters) {
        const std::int64_t elements = parameter.slice.local().elements();  // with padding
        const bool again = !counted.insert(parameter.order).second;
        if (!again) parameters += width * elements;
        if (parameter.frozen) continue;
        gradients += width * elements;  // a table used twice has two gradients
        if (!again) optimizer += (is_narrow(parameter.dtype) ? 12 : 8) * elements;
      }
  }

  void count_activations(const GptConfig& config) {
    count_stash(config, tensor_divisors(t));
    // In the uppermost block's MLP: dy (F) and the gradient of the projection's input (4 F/t), or,
    // once the MLP's saved 8 F/t are released, dy, the gradient of fc's output (4 F/t) and dx (F).
    const std::int64_t mlp = std::max(whole + 4 * part, 2 * whole - 4 * part);
    block_forward = whole;
    block_backward = mlp;
    pending = layers.count() * (4 * whole + 12 * part) + (layers.head ? whole + logits : 0) +
              (layers.embedding ? whole : 0);
    if (layers.head) {
      // The losses are released before the head's Linear computes its dx (F).
      forward_working = 0;
      backward_working = std::max({std::int64_t{0}, whole - statistics(), mlp - head});
      // The final LayerNorm has its dy and its dx.
      backward_input_working =
          std::max({std::int64_t{0}, 4 * part - 2 * statistics(), 2 * whole - statistics()});
    } else {
      forward_working = whole;
      backward_working = mlp;
      backward_input_working = std::max(whole + 4 * part, 3 * whole);  // LayerNorm: dy, dy, dx
    }
  }
};

/// Bytes of the statistics that the loss gathers, three f32 per token and rank.
inline std::int64_t loss_statistics(const TensorFootprint& footprint) {
  return footprint.layers.head && footprint.t > 1 ? 12 * footprint.tokens * footprint.t : 0;
}

/// Bytes that a rank sends to gather them, per microbatch.
inline std::int64_t loss_sends(const TensorFootprint& footprint) {
  return loss_statistics(footprint) / footprint.t * (footprint.t - 1);
}

/// Elements that a rank sends per microbatch in all-reduces of N h elements. A layer has four, g
/// twice in the forward pass and f twice in the backward pass: 8 b s h (t-1)/t elements if t
/// divides N h. The embedding's g and the head's f are one each.
inline std::int64_t tensor_sends(const TensorFootprint& footprint, const Place& place,
                                 std::int64_t hidden) {
  const StageLayers& layers = footprint.layers;
  const int exchanges = 4 * layers.count() + (layers.embedding ? 1 : 0) + (layers.head ? 1 : 0);
  return exchanges *
         ring_all_reduce_sends(footprint.tokens * hidden, footprint.t, place.coordinate(Axis::tp));
}

/// Bytes of scratch memory that one of these all-reduces needs.
inline std::int64_t tensor_scratch(const TensorFootprint& footprint, const Plan& plan) {
  return width_of(plan) * ring_scratch(footprint.tokens * plan.model().hidden, plan, footprint.t);
}

/// The peaks of all categories but communication, for one microbatch at a time.
inline Predicted predict_memory(const TensorFootprint& footprint) {
  Predicted predicted;
  predicted.peak_bytes[MemoryCategory::parameters] = footprint.parameters;
  predicted.peak_bytes[MemoryCategory::gradients] = footprint.gradients;
  predicted.peak_bytes[MemoryCategory::optimizer] = footprint.optimizer;
  predicted.peak_bytes[MemoryCategory::activations] = footprint.peak(1);
  return predicted;
}

/// Predicts one step of one rank with the whole model on each tensor-parallel group. Beyond the
/// all-reduces, the loss gathers its statistics.
inline Predicted predict_tensor_parallel(const Plan& plan, const Place& place) {
  const int m = plan.batch.microbatches;
  const std::int64_t width = width_of(plan), h = plan.model().hidden;
  const TensorFootprint footprint{plan, place, place.only_stage(), m};
  Predicted predicted = predict_memory(footprint);
  predicted.bytes_sent[Operation::all_reduce] = m * width * tensor_sends(footprint, place, h);
  predicted.bytes_sent[Operation::all_gather] = m * loss_sends(footprint);
  predicted.peak_bytes[MemoryCategory::communication] =
      std::max(tensor_scratch(footprint, plan), loss_statistics(footprint));
  return predicted;
}

}  // namespace lockstep
