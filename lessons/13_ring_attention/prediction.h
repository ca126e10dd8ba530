#pragma once

#include <algorithm>

#include "core/plan/footprint.h"
#include "core/plan/prediction.h"
#include "lessons/02_data_parallel/prediction.h"
#include "lessons/13_ring_attention/context_parallel.h"

namespace lockstep {

/// The memory of one rank's stage, in bytes, if N ranks share every sequence: the activations of
/// s/N tokens, and the whole model. The allocator agrees to the byte
/// (tests/lessons/test_ring_attention.cpp).
struct ContextFootprint : Footprint {
  ContextFootprint(const Plan& plan, const Place& place, ContextMethod method)
      : Footprint(part_of(plan, place), layers_of(plan, place), batch_of(plan)),
        ranks(place.size(Axis::cp)),
        layers(layers_of(plan, place).count()),
        tensor(plan.boundary(plan.batch.microbatches).shape.elements()) {
    const Footprint whole{plan.model(), layers_of(plan, place), batch_of(plan)};
    parameters = whole.parameters;
    gradients = whole.gradients;
    optimizer = whole.optimizer;
    // The core keeps its y, of all tokens and some heads; the projection keeps its x, of some
    // tokens and all heads. In the other methods these are one tensor.
    if (method == ContextMethod::ulysses && ranks > 1) stash += layers * width_of(plan) * tensor;
  }

  int ranks;            ///< N, along cp
  std::int64_t layers;  ///< blocks
  std::int64_t tensor;  ///< F = b c h elements: q, k, v or y of one rank's tokens

 private:
  static GptConfig part_of(const Plan& plan, const Place& place) {
    GptConfig config = plan.model();
    config.sequence /= place.size(Axis::cp);
    return config;
  }
  static StageLayers layers_of(const Plan& plan, const Place& place) {
    return plan.layers_of(place.only_stage());
  }
  static int batch_of(const Plan& plan) { return plan.microbatch_size(plan.batch.microbatches); }
};

/// Elements that a rank sends per layer and microbatch, with F = b c h elements.
struct ContextSends {
  std::int64_t send = 0, all_gather = 0, reduce_scatter = 0, all_to_all = 0;
};
inline ContextSends context_layer_sends(ContextMethod method, std::int64_t tensor, int n) {
  if (n == 1) return {};
  switch (method) {
    case ContextMethod::ulysses:  // forward: q, k, v, and y; backward: dy, and dq, dk, dv
      return {.all_to_all = (3 + 1 + 1 + 3) * tensor / n * (n - 1)};
    case ContextMethod::gather:  // K and V in each pass; dK and dV
      return {.all_gather = 2 * (n - 1) * 2 * tensor, .reduce_scatter = (n - 1) * 2 * tensor};
    default:  // K and V make N-1 hops in each pass; dK and dV make N
      return {.send = 2 * (n - 1) * 2 * tensor + n * 2 * tensor};
  }
}

/// Elements of the messages that a rank holds at the same time.
inline std::int64_t context_messages(const Plan& plan, ContextMethod method, std::int64_t tensor,
                                     int n) {
  if (n == 1) return 0;
  switch (method) {
    case ContextMethod::ulysses:  // one to send and one to receive, of q, k and v
      return 2 * 3 * tensor;
    case ContextMethod::gather: {  // backward: everyone's K, V, dK and dV
      const std::int64_t of_all = n * 2 * tensor;
      return 2 * of_all + ring_scratch(of_all, plan, n);
    }
    default:  // backward: K, V held and arriving; dK, dV computed, summed and arriving
      return (2 + 3) * 2 * tensor;
  }
}

/// Predicts one step of one rank. As in lesson 2, every rank has all parameters and sums their
/// gradients with the other ranks, once per step.
inline Predicted predict_context_parallel(const Plan& plan, const Place& place,
                                          ContextMethod method, const FlatLayout& layout) {
  const std::int64_t width = width_of(plan), m = plan.batch.microbatches;
  const ContextFootprint footprint{plan, place, method};
  const int n = footprint.ranks;
  const GradientSums sums =
      gradient_sums(plan, layout, GradientSync::bucket, n, place.coordinate(Axis::cp));

  Predicted predicted;
  const ContextSends layer = context_layer_sends(method, footprint.tensor, n);
  const auto bytes = [&](std::int64_t of_layer) { return width * m * footprint.layers * of_layer; };
  predicted.bytes_sent[Operation::send] = bytes(layer.send);
  predicted.bytes_sent[Operation::all_gather] = bytes(layer.all_gather);
  predicted.bytes_sent[Operation::reduce_scatter] = bytes(layer.reduce_scatter);
  predicted.bytes_sent[Operation::all_to_all] = bytes(layer.all_to_all);
  predicted.bytes_sent[Operation::all_reduce] = width * sums.sent;

  predicted.peak_bytes[MemoryCategory::parameters] = footprint.parameters;
  predicted.peak_bytes[MemoryCategory::gradients] =
      footprint.gradients + width * (layout.elements(false) - layout.used(false));
  predicted.peak_bytes[MemoryCategory::optimizer] = footprint.optimizer;
  predicted.peak_bytes[MemoryCategory::activations] = footprint.peak(1);
  predicted.peak_bytes[MemoryCategory::communication] =
      width * std::max(context_messages(plan, method, footprint.tensor, n), sums.scratch);
  return predicted;
}

}  // namespace lockstep
