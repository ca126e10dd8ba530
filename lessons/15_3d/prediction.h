#pragma once

#include <algorithm>
#include <functional>
#include <map>
#include <optional>
#include <vector>

#include "core/pipeline/message_plan.h"
#include "core/pipeline/update.h"
#include "lessons/05_zero_3/prediction.h"
#include "lessons/07_sequence_parallel/prediction.h"
#include "lessons/08_gpipe/prediction.h"
#include "lessons/15_3d/stage_times.h"
#include "lessons/15_3d/three_d.h"
#include "lessons/schedules/schedule_flags.h"

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
      return predict_zero_3(plan, place, layout, stage, /*prefetch=*/1,
                            backward_follows(plan, place));
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

/// Returns the number of elements of a stage's LayerNorms that this rank updates.
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

/// Returns the number of elements of the LayerNorms' gradients that this rank sums over tp: with
/// sequence parallelism, those of all its stages, in one all-reduce.
inline std::int64_t summed_norms(const Plan& plan, const Place& place, const Composition& chosen) {
  std::int64_t elements = 0;
  if (chosen.sequence_parallel && place.size(Axis::tp) > 1)
    for (const int stage : place.stages)
      elements += layernorm_elements(plan, place, layout_of(plan, place, stage, chosen), chosen);
  return elements;
}
/// Returns the bytes that a rank sends for this all-reduce.
inline std::int64_t norm_sends(const Plan& plan, const Place& place, const Composition& chosen) {
  return width_of(plan) * ring_all_reduce_sends(summed_norms(plan, place, chosen),
                                                place.size(Axis::tp), place.coordinate(Axis::tp));
}

/// Returns the bytes that the layers of a stage send along tp in a step with m microbatches. Blocks
/// that are recomputed run their forward pass twice (`forwards`).
inline BytesSent sent_along_tp(const Plan& plan, const Place& place, const TensorFootprint& stage,
                               int m, const Composition& chosen, int forwards = 1) {
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
  return sent;
}

/// What a stage's layers need on one rank, apart from the pipeline and from data parallelism.
struct LayerFigures {
  TensorFootprint memory;
  BytesSent sent{};  ///< per step
  /// Returns the bytes of the layers' own messages that exist at the same time, in the forward or
  /// backward pass of a microbatch through a unit. (Weight gradients need no messages.)
  std::function<std::int64_t(Op op, int microbatch, int unit)> messages{};
};
/// The figures of all stages of one rank.
using StageFigures = std::map<int, LayerFigures>;

/// Returns the figures of lesson 6's or 7's layers.
inline LayerFigures tensor_layers(const Plan& plan, const Place& place, int stage, int m,
                                  const Composition& chosen) {
  LayerFigures layers{stage_footprint(plan, place, stage, m, chosen)};
  layers.sent = sent_along_tp(plan, place, layers.memory, m, chosen);
  const std::int64_t exchange = tensor_scratch(layers.memory, plan);
  const std::int64_t statistics = loss_statistics(layers.memory);
  const int head = plan.model().layers + 1;
  layers.messages = [=](Op op, int, int unit) {
    return op == Op::forward && unit == head ? std::max(exchange, statistics) : exchange;
  };
  return layers;
}

/// The layouts of one stage's parameters: of those that all its replicas have, and of experts.
inline std::vector<FlatLayout> layouts_of(const Plan& plan, const Place& place, int stage,
                                          const Composition& chosen) {
  std::vector<FlatLayout> layouts{layout_of(plan, place, stage, chosen)};
  if (auto experts = layout_of_experts(plan, place, stage, chosen))
    layouts.push_back(*std::move(experts));
  return layouts;
}

/// Returns the peak of MemoryCategory::communication during the forward and backward passes, in
/// bytes. This peak is neither a sum nor a maximum of the techniques' own: pipeline messages are in
/// flight while a layer exchanges its terms, and buckets of gradients are in flight while the
/// backward pass continues below them, and while the rank's other stages run.
inline std::int64_t peak_in_flight(const Plan& plan, const Place& place, const Schedule& schedule,
                                   const StageFigures& stages, const Composition& chosen) {
  const int rank = place.coordinate(Axis::pp);
  const std::vector<Action>& actions = schedule.actions[static_cast<std::size_t>(rank)];
  const MessagePlan plan_of_messages{schedule, rank};
  std::map<int, std::vector<FlatLayout>> layouts;
  for (const int stage : place.stages) layouts[stage] = layouts_of(plan, place, stage, chosen);
  std::map<int, std::size_t> completes;  // the action that completes a stage's gradients
  for (std::size_t i = 0; i < actions.size(); ++i)
    if (actions[i].op == Op::backward || actions[i].op == Op::backward_weight)
      completes[actions[i].stage] = i;

  std::int64_t peak = 0, messages = 0, reducing = 0;
  const auto reach = [&](std::int64_t more) { peak = std::max(peak, messages + reducing + more); };
  const auto change = [&](std::int64_t buffers) {
    messages += stages.begin()->second.memory.boundary * buffers;  // the same for all stages
    reach(0);
  };
  const auto count = [](const auto& many) { return static_cast<std::int64_t>(many.size()); };
  const auto sent = [](const std::optional<MessagePlan::Message>& message) {
    return message && !message->local() ? 1 : 0;
  };

  const auto prepare = [&](const MessagePlan::Around& around) {
    change(count(around.post_before));
    change(-sent(around.input) - count(around.release));
    change(around.post_after ? 1 : 0);
  };
  const auto run = [&](std::size_t i) {
    const auto [op, stage, microbatch, with_next] = actions[i];
    const bool weights = op == Op::backward_weight;
    const bool reduces =
        (op == Op::backward || weights) && (chosen.zero >= 2 || completes.at(stage) == i);
    // ZeRO-2 and 3 have one bucket in flight. Before the first bucket, they wait for the previous
    // microbatch's last one.
    if (reduces && chosen.zero >= 2) reducing = 0;
    for (const int unit : layouts.at(stage).front().units()) {
      // the unit's layers, before its buckets leave
      if (!weights && (op == Op::forward || unit > 0))
        reach(stages.at(stage).messages(op, microbatch, unit));
      if (!reduces) continue;
      for (const FlatLayout& layout : layouts.at(stage))
        for (const FlatLayout::Bucket& bucket : layout.buckets()) {
          if (bucket.last_unit() != unit) continue;
          if (chosen.zero >= 2) reducing = 0;
          reducing += width_of(plan) * ring_scratch(bucket.elements, plan, layout.shards());
          reach(0);
        }
    }
  };

  change(count(plan_of_messages.post_first()));
  for (std::size_t first = 0, next = 0; first < actions.size(); first = next) {
    next = first + (actions[first].with_next ? 2 : 1);  // a joined pair, or one action
    for (std::size_t i = first; i < next; ++i) prepare(plan_of_messages.around(i));
    for (std::size_t i = first; i < next; ++i) run(i);
    for (std::size_t i = first; i < next; ++i) change(sent(plan_of_messages.around(i).output));
  }
  return peak;
}

/// Returns the peak of MemoryCategory::communication in a step.
inline std::int64_t peak_communication(const Plan& plan, const Place& place,
                                       const Schedule& schedule, const Composition& chosen,
                                       const StageFigures& stages) {
  std::int64_t replicas = 0;  // all sums at once
  for (const int stage : place.stages)
    replicas += replica_sums(plan, place, layout_of(plan, place, stage, chosen)).scratch;
  const std::int64_t norms = summed_norms(plan, place, chosen);
  return std::max({peak_in_flight(plan, place, schedule, stages, chosen), replicas,
                   width_of(plan) * (norms + ring_scratch(norms, plan, place.size(Axis::tp))),
                   update_messages(plan, place, chosen.shards(place)).peak_bytes});
}

/// Adds what one stage's replicas and layers send, and the memory of its model states.
inline void add_stage(Predicted& predicted, const Plan& plan, const Place& place, int stage,
                      const Composition& chosen, const LayerFigures& layers) {
  const FlatLayout layout = layout_of(plan, place, stage, chosen);
  const Predicted sharers = predict_sharers(plan, place, layout, layers.memory, chosen);
  for (const Operation operation : all_operations) {
    Figure& sent = predicted.bytes_sent[operation];
    sent = *sent + *sharers.bytes_sent[operation] + layers.sent[operation];
  }
  for (const MemoryCategory category :
       {MemoryCategory::parameters, MemoryCategory::gradients, MemoryCategory::optimizer}) {
    Figure& peak = predicted.peak_bytes[category];
    peak = *peak + *sharers.peak_bytes[category];
  }
  Figure& all_reduced = predicted.bytes_sent[Operation::all_reduce];
  all_reduced = *all_reduced + replica_sums(plan, place, layout).bytes_sent;

  const std::optional<FlatLayout> experts = layout_of_experts(plan, place, stage, chosen);
  if (!experts) return;
  const GradientSums sums = gradient_sums(plan, *experts, GradientSync::overlap,
                                          place.size(Axis::edp), place.coordinate(Axis::edp));
  all_reduced = *all_reduced + width_of(plan) * sums.sent;
  Figure& gradients = predicted.peak_bytes[MemoryCategory::gradients];
  gradients = *gradients + width_of(plan) * (experts->elements() - experts->used());  // padding
}

/// Predicts one step of one rank, except for the formula of the bubble. Messages and model states
/// are the sums of the techniques' own, and activations are those of the stages' layers in the
/// schedule's pipeline.
inline Predicted predict_mesh(const Plan& plan, const Place& place, const Schedule& schedule,
                              const Composition& chosen, const StageFigures& stages) {
  Predicted predicted = predict_pipeline(
      plan, place, schedule,
      [&](const Plan&, const Place&, int stage, int) -> Footprint {
        return stages.at(stage).memory;
      },
      chosen.shards(place));
  for (const MemoryCategory category :
       {MemoryCategory::parameters, MemoryCategory::gradients, MemoryCategory::optimizer})
    predicted.peak_bytes[category] = 0;
  for (const auto& [stage, layers] : stages)
    add_stage(predicted, plan, place, stage, chosen, layers);
  Figure& all_reduced = predicted.bytes_sent[Operation::all_reduce];
  all_reduced = *all_reduced + norm_sends(plan, place, chosen);
  predicted.peak_bytes[MemoryCategory::communication] =
      peak_communication(plan, place, schedule, chosen, stages);
  return predicted;
}

/// Predicts one step of one rank with lesson 6's or 7's layers.
inline Predicted predict_3d(const Plan& plan, const Place& place, const Schedule& schedule,
                            const Composition& chosen) {
  StageFigures stages;
  for (const int stage : place.stages)
    stages.emplace(stage, tensor_layers(plan, place, stage, schedule.microbatches, chosen));
  Predicted predicted = predict_mesh(plan, place, schedule, chosen, stages);
  set_bubble(predicted, schedule, times_3d(plan, schedule.microbatches, chosen));
  return predicted;
}

}  // namespace lockstep
