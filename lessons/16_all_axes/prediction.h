#pragma once

#include <algorithm>

#include "lessons/13_ring_attention/prediction.h"
#include "lessons/14_mixed_precision/recompute_cost.h"
#include "lessons/15_3d/prediction.h"
#include "lessons/16_all_axes/all_axes.h"
#include "lessons/16_all_axes/expert_prediction.h"

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

/// Returns the memory of one stage's layers without recomputation: lesson 6's or 7's, of the tokens
/// of one cp rank, with lesson 13's attention.
inline TensorFootprint stage_memory(const Plan& plan, const Place& place, int m,
                                    const AllAxes& chosen) {
  TensorFootprint stage = stage_footprint(plan, place, place.only_stage(), m, chosen);
  add_context_stash(stage, chosen.method, place.size(Axis::cp));
  const GptConfig& model = plan.model();
  if (chosen.recompute == Recompute::none)
    recompute(stage, stage.layers.count(), chosen.recompute,
              probabilities_kept(stage.tokens, model.heads / stage.t, model.sequence));
  return stage;
}

/// Returns the figures of a stage's layers, without those that depend on a routing. Along tp and
/// along cp, a layer exchanges one thing at a time, so its memory for messages is the larger of the
/// two.
inline LayerFigures layers_on_all_axes(const Plan& plan, const Place& place, int m,
                                       const AllAxes& chosen) {
  LayerFigures layers = tensor_layers(plan, place, place.only_stage(), m, chosen);
  const TensorFootprint stage = stage_memory(plan, place, m, chosen);
  layers.memory = stage;
  if (chosen.recompute == Recompute::full)
    recompute(layers.memory, stage.layers.count(), chosen.recompute, 0);
  layers.sent = sent_along_tp(plan, place, stage, m, chosen, chosen.forwards());
  const BytesSent along_cp = sent_along_cp(plan, place, stage, m, chosen);
  for (const Operation operation : all_operations) layers.sent[operation] += along_cp[operation];
  if (chosen.has_experts())
    layers.sent[Operation::all_reduce] +=
        4 * m * stage.layers.count() *
        ring_all_reduce_sends(stage.tokens * chosen.moe.top_k, stage.t, place.coordinate(Axis::tp));

  const ContextMessages messages =
      context_messages(plan, chosen.method, context_tensor(plan, stage), place.size(Axis::cp));
  const std::int64_t width = width_of(plan);
  const int blocks = plan.model().layers;
  layers.messages = [=, along_tp = layers.messages](Op op, int microbatch, int unit) {
    const std::int64_t along_tp_here = along_tp(op, microbatch, unit);
    if (unit < 1 || unit > blocks) return along_tp_here;
    return std::max(along_tp_here,
                    width * (op == Op::forward ? messages.forward : messages.backward));
  };
  return layers;
}

/// Sets the figures that follow from the routings of `steps` steps, of which the first one's first
/// microbatch has the number `first`: the mean of the bytes, and the peaks.
inline void set_routed_figures(Predicted& predicted, const Plan& plan, const Place& place,
                               const Schedule& schedule, const AllAxes& chosen, RoutingLog& log,
                               std::int64_t first, std::int64_t steps) {
  const int m = schedule.microbatches;
  const LayerFigures dense = layers_on_all_axes(plan, place, m, chosen);
  const TensorFootprint stage = stage_memory(plan, place, m, chosen);
  const ExpertActivations activations{plan, chosen.moe, place.size(Axis::ep), stage,
                                      place.size(Axis::tp)};
  std::int64_t sent = 0, peak = 0, in_flight = 0;
  for (std::int64_t i = 0; i < steps; ++i) {
    const RoutedStep step{plan, place, log, m, first + i * m};
    sent += sent_along_ep(plan, place, step, m, chosen);
    peak = std::max(peak, peak_of_routed(schedule, place.coordinate(Axis::pp), stage, activations,
                                         step, chosen.recompute));
    LayerFigures layers = dense;
    layers.messages = [&](Op op, int microbatch, int unit) {
      const std::int64_t others = dense.messages(op, microbatch, unit);
      if (unit < 1 || unit > plan.model().layers) return others;
      const auto layer = static_cast<std::size_t>(unit - 1 - stage.layers.first);
      return std::max(others, messages_of_experts(plan, place, op, step.rows(microbatch)[layer],
                                                  stage.tokens, chosen.moe));
    };
    in_flight = std::max(in_flight, peak_communication(plan, place, schedule, chosen,
                                                       {{place.only_stage(), layers}}));
  }
  predicted.bytes_sent[Operation::all_to_all] =
      dense.sent[Operation::all_to_all] + sent / std::max<std::int64_t>(1, steps);
  predicted.peak_bytes[MemoryCategory::activations] = peak;
  predicted.peak_bytes[MemoryCategory::communication] = in_flight;
}

/// Predicts one step of one rank. Lesson 15's prediction composes the axes; only the layers differ.
/// Some figures depend on the routing: once the phase is over, they are derived from the routing
/// that happened.
inline Predicted predict_all_axes(const Plan& plan, const Place& place, const Schedule& schedule,
                                  const AllAxes& chosen, RoutingLog& log) {
  const LayerFigures layers = layers_on_all_axes(plan, place, schedule.microbatches, chosen);
  Predicted predicted = predict_mesh(plan, place, schedule, chosen, {{place.only_stage(), layers}});
  set_gpipe_bubble(predicted, schedule);
  if (!chosen.has_experts()) return predicted;
  const Figure unknown = Figure::not_predicted("depends on the routing");
  predicted.bytes_sent[Operation::all_to_all] = unknown;
  predicted.peak_bytes[MemoryCategory::activations] = unknown;
  predicted.peak_bytes[MemoryCategory::communication] = unknown;
  predicted.at_end = [=, &log](Predicted& complete) {
    const int layer = plan.layers_of(place.only_stage()).first;
    const auto calls = static_cast<std::int64_t>(
        log.calls(replica_of(plan.mesh, place.rank), layer, place.coordinate(Axis::tp)).size());
    set_routed_figures(complete, plan, place, schedule, chosen, log, 0,
                       calls / schedule.microbatches);
  };
  return predicted;
}

}  // namespace lockstep
