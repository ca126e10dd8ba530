#pragma once

#include <algorithm>
#include <functional>
#include <optional>
#include <vector>

#include "core/pipeline/message_plan.h"
#include "core/pipeline/update.h"
#include "lessons/05_zero_3/prediction.h"
#include "lessons/07_sequence_parallel/prediction.h"
#include "lessons/08_gpipe/prediction.h"
#include "lessons/15_3d/composition.h"

namespace lockstep {

/// Returns the memory of one stage's layers: lesson 6's or lesson 7's.
inline TensorFootprint stage_footprint(const Plan& plan, const Place& place, int stage,
                                       int microbatches, const Composition& chosen) {
  if (!chosen.sequence_parallel) return {plan, place, stage, microbatches};
  return SequenceFootprint{plan, place, stage, microbatches, /*regather=*/false};
}

/// Returns the prediction of the technique along dp, within one group of sharers.
inline Predicted predict_sharers(const Plan& plan, const Place& place, const FlatLayout& layout,
                                 const Footprint& stage, const Composition& chosen) {
  switch (chosen.zero) {
    case 1:
      return predict_zero_1(plan, place, layout, stage);
    case 2:
      return predict_zero_2(plan, place, layout, stage);
    case 3:
      return predict_zero_3(plan, place, layout, stage, /*prefetch=*/1, prefetch_on(plan, place));
    default:
      return predict_data_parallel(plan, place, layout, GradientSync::overlap, stage);
  }
}

/// What hybrid sharding's all-reduces of all shards need on one rank.
struct ReplicaSums {
  std::int64_t bytes_sent = 0;
  std::int64_t scratch = 0;  ///< bytes of scratch memory; the all-reduces run at the same time
};
inline ReplicaSums replica_sums(const Plan& plan, const Place& place, const FlatLayout& layout) {
  ReplicaSums sums;
  const int replicas = place.size(Axis::dp_cp) / layout.shards();
  for (const FlatLayout::Bucket& bucket : layout.buckets()) {
    const std::int64_t shard = bucket.frozen ? 0 : bucket.elements / layout.shards();
    sums.bytes_sent +=
        width_of(plan) *
        ring_all_reduce_sends(shard, replicas, place.coordinate(Axis::dp_cp) / layout.shards());
    sums.scratch += width_of(plan) * ring_scratch(shard, plan, replicas);
  }
  return sums;
}

/// Returns the number of elements of LayerNorms that this rank updates.
inline std::int64_t layernorm_elements(const Plan& plan, const Place& place,
                                       const FlatLayout& layout, const Composition& chosen) {
  std::int64_t elements = 0;
  const int mine = place.coordinate(Axis::dp_cp) % layout.shards();
  for (const FlatLayout::Bucket& bucket : layout.buckets())
    for (int i = 0; i < layout.shards(); ++i)
      for (const FlatLayout::Piece& piece : layout.shard(bucket, i))
        if ((chosen.zero == 0 || i == mine) &&
            is_layernorm(plan.model(), bucket.slots[piece.slot].parameter.order))
          elements += piece.elements;
  return elements;
}

/// Returns the bytes that a rank sends along tp in a step with m microbatches. Lesson 15 sums the
/// gradients of a rank's LayerNorms in one all-reduce. Blocks that are recomputed run their forward
/// pass twice (`forwards`).
inline BytesSent sent_along_tp(const Plan& plan, const Place& place, const FlatLayout& layout,
                               const TensorFootprint& stage, int m, const Composition& chosen,
                               int forwards = 1) {
  BytesSent sent;
  const std::int64_t width = width_of(plan), h = plan.model().hidden;
  sent[Operation::all_gather] = m * loss_sends(stage);
  if (!chosen.sequence_parallel) {
    sent[Operation::all_reduce] = m * width * tensor_sends(stage, place, h, forwards);
    return sent;
  }
  const SequenceSends exchanges = sequence_sends(stage, h, /*regather=*/false, forwards);
  sent[Operation::reduce_scatter] = m * width * exchanges.reduce_scatter;
  sent[Operation::all_gather] += m * width * exchanges.all_gather;
  sent[Operation::all_reduce] =
      width * ring_all_reduce_sends(layernorm_elements(plan, place, layout, chosen), stage.t,
                                    place.coordinate(Axis::tp));
  return sent;
}

/// What a stage's layers need on one rank, apart from the pipeline and from data parallelism.
struct LayerFigures {
  TensorFootprint memory;
  BytesSent sent{};  ///< per step
  /// Returns the bytes of the layers' own messages that exist at the same time, in the forward or
  /// backward pass of a microbatch through a unit.
  std::function<std::int64_t(Op op, int microbatch, int unit)> messages{};
};

/// Returns the figures of lesson 6's or 7's layers.
inline LayerFigures tensor_layers(const Plan& plan, const Place& place, const FlatLayout& layout,
                                  int m, const Composition& chosen) {
  LayerFigures layers{stage_footprint(plan, place, place.only_stage(), m, chosen)};
  layers.sent = sent_along_tp(plan, place, layout, layers.memory, m, chosen);
  const std::int64_t exchange = tensor_scratch(layers.memory, plan);
  const std::int64_t statistics = loss_statistics(layers.memory);
  const int head = plan.model().layers + 1;
  layers.messages = [=](Op op, int, int unit) {
    return op == Op::forward && unit == head ? std::max(exchange, statistics) : exchange;
  };
  return layers;
}

/// Returns the peak of MemoryCategory::communication during the forward and backward passes, in
/// bytes. This peak is neither a sum nor a maximum of the techniques' own: pipeline messages are in
/// flight while a layer exchanges its terms, and buckets of gradients are in flight while the
/// backward pass continues below them. For schedules with one stage per rank whose last action is
/// the last microbatch's backward pass.
inline std::int64_t peak_in_flight(const Plan& plan, const Place& place, const Schedule& schedule,
                                   const std::vector<const FlatLayout*>& layouts,
                                   const LayerFigures& layers, const Composition& chosen) {
  const auto rank = static_cast<std::size_t>(place.coordinate(Axis::pp));
  const std::vector<Action>& actions = schedule.actions[rank];
  const MessagePlan plan_of_messages{schedule, place.coordinate(Axis::pp)};
  const auto boundaries = [&](std::size_t count) {
    return layers.memory.boundary * static_cast<std::int64_t>(count);
  };
  std::int64_t peak = 0, messages = 0, reducing = 0;
  const auto change = [&](std::int64_t bytes) {
    messages += bytes;
    peak = std::max(peak, messages + reducing);
  };
  const auto reach = [&](std::int64_t more) { peak = std::max(peak, messages + reducing + more); };

  const std::vector<int> units = layouts.front()->units();
  const auto reduce_buckets = [&](int microbatch) {
    // ZeRO-2 and 3 have one bucket in flight. Before the first bucket, they wait for the previous
    // microbatch's last one.
    if (chosen.zero >= 2) reducing = 0;
    for (const int unit : units) {
      // the unit's layers, before its buckets leave
      if (unit > 0) reach(layers.messages(Op::backward, microbatch, unit));
      for (const FlatLayout* layout : layouts)
        for (const FlatLayout::Bucket& bucket : layout->buckets()) {
          if (bucket.last_unit() != unit) continue;
          if (chosen.zero >= 2) reducing = 0;
          reducing += width_of(plan) * ring_scratch(bucket.elements, plan, layout->shards());
          reach(0);
        }
    }
  };

  change(boundaries(plan_of_messages.post_first().size()));
  for (std::size_t i = 0; i < actions.size(); ++i) {
    const MessagePlan::Around& around = plan_of_messages.around(i);
    change(boundaries(around.post_before.size()));
    change(-boundaries(around.input ? 1 : 0) - boundaries(around.release.size()));
    change(boundaries(around.post_after ? 1 : 0));
    const Op op = actions[i].op;
    const int microbatch = actions[i].microbatch;
    if (op == Op::backward && (chosen.zero >= 2 || i + 1 == actions.size()))
      reduce_buckets(microbatch);
    else
      for (const int unit : units)
        if (op == Op::forward || unit > 0) reach(layers.messages(op, microbatch, unit));
    change(boundaries(around.output ? 1 : 0));
  }
  return peak;
}

/// Returns the peak of MemoryCategory::communication in a step.
inline std::int64_t peak_communication(const Plan& plan, const Place& place,
                                       const Schedule& schedule, const Composition& chosen,
                                       const LayerFigures& layers) {
  const FlatLayout layout = layout_of(plan, place, chosen);
  const std::optional<FlatLayout> experts = layout_of_experts(plan, place, chosen);
  std::vector<const FlatLayout*> layouts{&layout};
  if (experts) layouts.push_back(&*experts);
  const int t = layers.memory.t;
  const std::int64_t norms =
      chosen.sequence_parallel && t > 1 ? layernorm_elements(plan, place, layout, chosen) : 0;
  return std::max({peak_in_flight(plan, place, schedule, layouts, layers, chosen),
                   replica_sums(plan, place, layout).scratch,
                   width_of(plan) * (norms + ring_scratch(norms, plan, t)),
                   update_messages(plan, place, chosen.shards(place)).peak_bytes});
}

/// Predicts one step of one rank. Messages and model states are the sums of the techniques' own,
/// and activations are those of `layers` on a stage of lesson 9's pipeline.
inline Predicted predict_mesh(const Plan& plan, const Place& place, const Schedule& schedule,
                              const Composition& chosen, const FlatLayout& layout,
                              const LayerFigures& layers) {
  const TensorFootprint& stage = layers.memory;
  const Predicted sharers = predict_sharers(plan, place, layout, stage, chosen);
  const ReplicaSums replicas = replica_sums(plan, place, layout);
  Predicted predicted = predict_gpipe(
      plan, place, schedule,
      [&stage](const Plan&, const Place&, int, int) -> Footprint { return stage; },
      chosen.shards(place));

  for (const Operation operation : all_operations) {
    Figure& sent = predicted.bytes_sent[operation];
    sent = *sent + *sharers.bytes_sent[operation] + layers.sent[operation];
  }
  const std::optional<FlatLayout> experts = layout_of_experts(plan, place, chosen);
  GradientSums of_experts;
  if (experts)
    of_experts = gradient_sums(plan, *experts, GradientSync::overlap, place.size(Axis::edp),
                               place.coordinate(Axis::edp));
  Figure& all_reduced = predicted.bytes_sent[Operation::all_reduce];
  all_reduced = *all_reduced + replicas.bytes_sent + width_of(plan) * of_experts.sent;

  for (const MemoryCategory category :
       {MemoryCategory::parameters, MemoryCategory::gradients, MemoryCategory::optimizer})
    predicted.peak_bytes[category] = sharers.peak_bytes[category];
  if (experts) {
    Figure& gradients = predicted.peak_bytes[MemoryCategory::gradients];
    gradients = *gradients + width_of(plan) * (experts->elements() - experts->used());  // padding
  }
  predicted.peak_bytes[MemoryCategory::communication] =
      peak_communication(plan, place, schedule, chosen, layers);
  return predicted;
}

/// Predicts one step of one rank with lesson 6's or 7's layers.
inline Predicted predict_3d(const Plan& plan, const Place& place, const Schedule& schedule,
                            const Composition& chosen) {
  const FlatLayout layout = layout_of(plan, place, chosen);
  return predict_mesh(plan, place, schedule, chosen, layout,
                      tensor_layers(plan, place, layout, schedule.microbatches, chosen));
}

}  // namespace lockstep
