#pragma once

#include <algorithm>

#include "lessons/13_ring_attention/prediction.h"
#include "lessons/14_mixed_precision/recompute_cost.h"
#include "lessons/15_3d/prediction.h"
#include "lessons/16_all_axes/all_axes.h"

namespace lockstep {

/// Returns the bytes that a rank sends along cp in a step with m microbatches.
inline BytesSent sent_along_cp(const Plan& plan, const Place& place, const TensorFootprint& stage,
                               int m, const AllAxes& chosen) {
  const ContextSends layer = context_layer_sends(chosen.method, context_tensor(plan, stage),
                                                 place.size(Axis::cp), chosen.forwards());
  const std::int64_t times = width_of(plan) * m * stage.layers.count();
  BytesSent sent;
  sent[Operation::send] = times * layer.send;
  sent[Operation::all_gather] = times * layer.all_gather;
  sent[Operation::reduce_scatter] = times * layer.reduce_scatter;
  sent[Operation::all_to_all] = times * layer.all_to_all;
  return sent;
}

/// Returns the memory of one stage's layers: lesson 6's or 7's, of the tokens of one cp rank, with
/// lesson 13's attention and lesson 14's recomputation.
inline TensorFootprint stage_memory(const Plan& plan, const Place& place, int m,
                                    const AllAxes& chosen) {
  TensorFootprint stage = stage_footprint(plan, place, place.only_stage(), m, chosen);
  add_context_stash(stage, chosen.method, place.size(Axis::cp));
  const GptConfig& model = plan.model();
  recompute(stage, stage.layers.count(), chosen.recompute,
            probabilities_kept(stage.tokens, model.heads / stage.t, model.sequence));
  return stage;
}

/// Returns the figures of a stage's layers. Along tp and along cp, a layer exchanges one thing at a
/// time, so its memory for messages is the larger of the two.
inline LayerFigures layers_on_all_axes(const Plan& plan, const Place& place,
                                       const FlatLayout& layout, int m, const AllAxes& chosen) {
  LayerFigures layers = tensor_layers(plan, place, layout, m, chosen);
  layers.memory = stage_memory(plan, place, m, chosen);
  const TensorFootprint& stage = layers.memory;
  layers.sent = sent_along_tp(plan, place, layout, stage, m, chosen, chosen.forwards());
  const BytesSent along_cp = sent_along_cp(plan, place, stage, m, chosen);
  for (const Operation operation : all_operations) layers.sent[operation] += along_cp[operation];
  const ContextMessages messages =
      context_messages(plan, chosen.method, context_tensor(plan, stage), place.size(Axis::cp));
  layers.forward = std::max(layers.forward, width_of(plan) * messages.forward);
  layers.block_backward = std::max(layers.block_backward, width_of(plan) * messages.backward);
  return layers;
}

/// Predicts one step of one rank. Lesson 15's prediction composes the axes; only the layers differ.
inline Predicted predict_all_axes(const Plan& plan, const Place& place, const Schedule& schedule,
                                  const AllAxes& chosen) {
  const FlatLayout layout = layout_of(plan, place, chosen);
  return predict_mesh(plan, place, schedule, chosen, layout,
                      layers_on_all_axes(plan, place, layout, schedule.microbatches, chosen));
}

}  // namespace lockstep
