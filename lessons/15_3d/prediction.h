#pragma once

#include <algorithm>

#include "core/pipeline/message_plan.h"
#include "core/pipeline/update.h"
#include "lessons/02_data_parallel/prediction.h"
#include "lessons/06_tensor_parallel/prediction.h"
#include "lessons/08_gpipe/prediction.h"

namespace lockstep {

/// The memory of lesson 6's stage, in the form that pipelines need it.
inline Footprint tensor_stage(const Plan& plan, const Place& place, int stage, int microbatches) {
  return TensorFootprint{plan, place, stage, microbatches};
}

/// Returns the peak of MemoryCategory::communication during the forward and backward passes, in
/// bytes, which is the only peak that is neither a sum nor a maximum of the three techniques' own:
/// pipeline messages are in flight while a layer exchanges its terms, and the buckets of gradients
/// are in flight while the last backward pass continues below them. For schedules with one stage
/// per rank whose last action is the last microbatch's backward pass.
inline std::int64_t peak_in_flight(const Plan& plan, const Place& place, const Schedule& schedule,
                                   const FlatLayout& layout, const TensorFootprint& stage) {
  const auto rank = static_cast<std::size_t>(place.coordinate(Axis::pp));
  const std::vector<Action>& actions = schedule.actions[rank];
  const MessagePlan messages{schedule, place.coordinate(Axis::pp)};
  const std::int64_t boundary = plan.boundary(schedule.microbatches).bytes();
  const std::int64_t exchange = tensor_scratch(stage, plan);
  std::int64_t peak = messages.peak_buffers() * boundary;
  std::int64_t in_flight = boundary * static_cast<std::int64_t>(messages.post_first().size());
  const auto reach = [&](std::int64_t more) { peak = std::max(peak, in_flight + more); };

  for (std::size_t i = 0; i < actions.size(); ++i) {
    const MessagePlan::Around& around = messages.around(i);
    const auto count = [](const auto& list) { return static_cast<std::int64_t>(list.size()); };
    in_flight += boundary * (count(around.post_before) - (around.input ? 1 : 0) -
                             count(around.release) + (around.post_after ? 1 : 0));
    if (actions[i].op == Op::forward) {
      reach(std::max(exchange, loss_statistics(stage)));
    } else if (i + 1 < actions.size()) {
      reach(exchange);
    } else {
      for (const FlatLayout::Bucket& bucket : layout.buckets()) {
        // f of the bucket's units, before their bucket leaves
        if (bucket.first_unit() > 0) reach(exchange);
        in_flight += width_of(plan) * ring_scratch(bucket.elements, plan);
      }
    }
    if (around.output) in_flight += boundary;
    reach(0);
  }
  return peak;
}

/// Predicts one step of one rank: the memory of lesson 6's layers on the stages of lesson 9's
/// pipeline with the buckets of lesson 2, and the sum of the three techniques' messages.
inline Predicted predict_3d(const Plan& plan, const Place& place, const Schedule& schedule,
                            std::int64_t bucket_bytes) {
  const int m = schedule.microbatches;
  const TensorFootprint stage{plan, place, place.only_stage(), m};
  const FlatLayout layout = layout_of_replicas(plan, place, bucket_bytes);
  const Predicted replicas =
      predict_data_parallel(plan, place, layout, GradientSync::overlap, stage);
  Predicted predicted = predict_gpipe(plan, place, schedule, tensor_stage);

  const auto add = [&](Operation operation, std::int64_t bytes) {
    Figure& sent = predicted.bytes_sent[operation];
    sent = *sent + bytes;
  };
  add(Operation::all_reduce, *replicas.bytes_sent[Operation::all_reduce]);
  add(Operation::all_reduce, m * width_of(plan) * tensor_sends(stage, place, plan.model().hidden));
  add(Operation::all_gather, m * loss_sends(stage));

  predicted.peak_bytes[MemoryCategory::gradients] = replicas.peak_bytes[MemoryCategory::gradients];
  predicted.peak_bytes[MemoryCategory::communication] =
      std::max(peak_in_flight(plan, place, schedule, layout, stage),
               update_messages(plan, place).peak_bytes);
  return predicted;
}

}  // namespace lockstep
