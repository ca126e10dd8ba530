#pragma once

#include <algorithm>

#include "core/plan/prediction.h"
#include "lessons/06_tensor_parallel/prediction.h"
#include "lessons/13_ring_attention/context_parallel.h"

namespace lockstep {

/// Adds the activations that attention saves on N ranks that share every sequence, beyond those of
/// attention on one rank. `stage` has s/N tokens per sequence, and possibly 1/t of the heads.
inline void add_context_stash(TensorFootprint& stage, ContextMethod method, int n) {
  // Ulysses' core keeps its y, of all tokens and some heads; the projection keeps its x, of some
  // tokens and all heads. In the other methods these are one tensor.
  if (method != ContextMethod::ulysses || n == 1) return;
  stage.block += stage.part;
  stage.stash += stage.layers.count() * stage.part;
}

/// Returns F = b c h/t, the elements of q, k, v or y of one rank's tokens and heads.
inline std::int64_t context_tensor(const Plan& plan, const TensorFootprint& stage) {
  return stage.part / width_of(plan);
}

/// Elements that a rank sends per layer and microbatch, with tensors of F elements.
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

/// Elements of the messages that a rank holds at the same time in each pass of a layer.
struct ContextMessages {
  std::int64_t forward = 0, backward = 0;
};
inline ContextMessages context_messages(const Plan& plan, ContextMethod method, std::int64_t tensor,
                                        int n) {
  if (n == 1) return {};
  switch (method) {
    case ContextMethod::ulysses:  // one to send and one to receive, of q, k and v
      return {.forward = 2 * 3 * tensor, .backward = 2 * 3 * tensor};
    case ContextMethod::gather: {  // everyone's K and V; backward: also dK and dV
      const std::int64_t of_all = n * 2 * tensor;
      return {.forward = of_all, .backward = 2 * of_all + ring_scratch(of_all, plan, n)};
    }
    default:  // K, V held and arriving; backward: also dK, dV computed, summed and arriving
      return {.forward = 2 * 2 * tensor, .backward = (2 + 3) * 2 * tensor};
  }
}

/// Predicts one step of one rank. As in lesson 2, every rank has all parameters and sums their
/// gradients with the other ranks, once per step.
inline Predicted predict_context_parallel(const Plan& plan, const Place& place,
                                          ContextMethod method, const FlatLayout& layout) {
  const std::int64_t width = width_of(plan), m = plan.batch.microbatches;
  const int n = place.size(Axis::cp);
  TensorFootprint footprint{plan, place, place.only_stage(), plan.batch.microbatches};
  add_context_stash(footprint, method, n);
  const std::int64_t tensor = context_tensor(plan, footprint);
  const GradientSums sums =
      gradient_sums(plan, layout, GradientSync::bucket, n, place.coordinate(Axis::cp));

  Predicted predicted;
  const ContextSends layer = context_layer_sends(method, tensor, n);
  const auto bytes = [&](std::int64_t of_layer) {
    return width * m * footprint.layers.count() * of_layer;
  };
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
      width * std::max(context_messages(plan, method, tensor, n).backward, sums.scratch);
  return predicted;
}

}  // namespace lockstep
