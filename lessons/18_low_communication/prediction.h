#pragma once

#include <algorithm>
#include <optional>

#include "core/pipeline/message_plan.h"
#include "lessons/02_data_parallel/prediction.h"
#include "lessons/08_gpipe/prediction.h"
#include "lessons/09_1f1b/one_f_one_b.h"
#include "lessons/18_low_communication/outer_optimizer.h"
#include "lessons/18_low_communication/streaming.h"

namespace lockstep {

/// The bytes of the outer parameters and their momentum, for each f32 parameter.
constexpr std::int64_t outer_bytes = 8;

/// Predicts the average step of a phase of data parallelism with an inner optimizer.
inline Predicted predict_inner(const Plan& plan, const Place& place, bool sgd,
                               std::int64_t bucket_bytes) {
  Predicted predicted = predict_data_parallel(plan, place, GradientSync::bucket, bucket_bytes);
  if (sgd) predicted.peak_bytes[MemoryCategory::optimizer] = 0;
  return predicted;
}

/// Predicts the average step of a phase of DiLoCo: every H steps, the bytes of one step of data
/// parallelism. The number of steps must be a multiple of H.
inline Predicted predict_diloco(const Plan& plan, const Place& place, const OuterOptions& outer,
                                bool sgd, std::int64_t bucket_bytes, int steps) {
  Predicted predicted = predict_inner(plan, place, sgd, bucket_bytes);
  const std::int64_t exchange = *predicted.bytes_sent[Operation::all_reduce];
  predicted.bytes_sent[Operation::all_reduce] = exchange * (steps / outer.every) / steps;
  predicted.peak_bytes[MemoryCategory::optimizer] =
      *predicted.peak_bytes[MemoryCategory::optimizer] +
      outer_bytes * static_cast<std::int64_t>(plan.model().parameter_count());
  return predicted;
}

/// Predicts the average step of streaming DiLoCo. It sends what DiLoCo sends, apart from padding.
/// The communication memory is that of the fragments in flight.
inline Predicted predict_streaming(const Plan& plan, const Place& place, const OuterOptions& outer,
                                   const StreamingOptions& streaming, bool sgd, int steps) {
  Predicted predicted = predict_diloco(plan, place, outer, sgd, one_bucket, steps);
  // Without buckets, gradients need no padding.
  const Footprint footprint{plan.model(), StageLayers::whole(plan.model()),
                            plan.microbatch_size(plan.batch.microbatches)};
  predicted.peak_bytes[MemoryCategory::gradients] = footprint.gradients;

  const std::vector<FlatLayout> layouts = fragment_layouts(
      plan.units(place, place.only_stage()), place.size(Axis::dp), streaming.fragments);
  DefaultCollectives collectives{plan, place, Axis::dp};
  std::int64_t sent = 0, peak = 0;
  std::vector<std::int64_t> in_flight(static_cast<std::size_t>(steps + outer.every) + 1);
  for (int f = 0; f < streaming.fragments; ++f) {
    const std::int64_t elements = layouts[static_cast<std::size_t>(f)].elements();
    const std::int64_t bytes =
        4 * (elements + collectives.scratch(Operation::all_reduce, elements));
    for (int step = 1; step <= steps; ++step) {
      if (!is_sent(f, step, outer.every, streaming.fragments)) continue;
      sent += 4 * collectives.all_reduce_sends(elements);
      // A sum is used before the next fragment is sent.
      for (int at = step; at < step + std::max(1, streaming.delay); ++at)
        in_flight[static_cast<std::size_t>(at)] += bytes;
    }
  }
  for (int step = 1; step <= steps; ++step)
    peak = std::max(peak, in_flight[static_cast<std::size_t>(step)]);
  predicted.bytes_sent[Operation::all_reduce] = sent / steps;
  predicted.peak_bytes[MemoryCategory::communication] = peak;
  const bool rings = std::ranges::all_of(layouts, [&](const FlatLayout& layout) {
    return collectives.is_ring(Operation::all_reduce, layout.elements());
  });
  predicted.sum_order = {};
  if (rings)
    predicted.sum_order = [layouts] {
      SumOrder order;
      for (const FlatLayout& layout : layouts)
        for (SumOrder::Segment& segment : ring_order(layout, GradientSync::bucket).segments)
          order.segments.push_back(std::move(segment));
      return order;
    };
  return predicted;
}

/// The versions of its weights that a stage of PipeDream holds after some updates, if it runs
/// `ahead` forward passes before its first backward pass (p - 1 - q for stage q of p), of
/// `microbatches` in all. In the steady state these are ahead + 1.
inline int versions_held(int ahead, int updates, int microbatches) {
  if (updates == 0) return 1;
  // The microbatches in flight, of which microbatch i has used version max(0, i - ahead).
  const int first = updates, last = std::min(updates + ahead, microbatches) - 1;
  const int old = last < first ? 0 : std::max(0, last - ahead) - std::max(0, first - ahead) + 1;
  return old + 1;  // and the latest
}

/// The phases of a run of PipeDream: the steps in which the pipeline fills, those in which it is
/// full, and the last step, after which it drains. A short run is one phase.
inline std::vector<Phase> pipedream_phases(int stages, int microbatches, int steps) {
  const int fill = (stages + microbatches - 1) / microbatches;
  if (steps < fill + 2) return {{"PipeDream", 0, steps, microbatches}};
  return {{"fill", 0, fill, microbatches},
          {"steady", fill, steps - fill - 1, microbatches},
          {"drain", steps - 1, 1, microbatches}};
}

/// The most buffers in flight on a rank while it runs the actions [first, end) of its schedule.
inline std::int64_t peak_buffers(const MessagePlan& messages, std::size_t first, std::size_t end) {
  auto now = static_cast<std::int64_t>(messages.post_first().size());
  std::int64_t peak = now;
  for (std::size_t i = 0; i < end; ++i) {
    const MessagePlan::Around& around = messages.around(i);
    if (i == first) peak = now;
    const auto change = [&](std::int64_t buffers) { peak = std::max(peak, now += buffers); };
    change(static_cast<std::int64_t>(around.post_before.size()));
    change(around.input ? -1 : 0);
    change(-static_cast<std::int64_t>(around.release.size()));
    change(around.post_after ? 1 : 0);
    change(around.output ? 1 : 0);
  }
  return peak;
}

/// Predicts the average step of a phase of PipeDream, in a run of `steps` steps.
inline Predicted predict_pipedream(const Plan& plan, const Place& place, const Phase& phase,
                                   int steps) {
  const int p = place.size(Axis::pp), q = place.coordinate(Axis::pp), m = phase.microbatches;
  const int all = m * steps, ahead = p - 1 - q;
  const int end = phase.first_step + phase.steps;
  // Backward passes, and so updates, up to the end of a step.
  const auto updates_after = [&](int step) {
    return step == steps ? all : std::max(0, m * step - ahead);
  };
  const int before = updates_after(phase.first_step), after = updates_after(end);
  const Footprint footprint{plan.model(), plan.layers_of(place.only_stage()),
                            plan.microbatch_size(m)};
  Predicted predicted;
  const int forwards = q + 1 < p ? m * phase.steps : 0, backwards = q > 0 ? after - before : 0;
  predicted.bytes_sent[Operation::send] = (forwards + backwards) * footprint.boundary / phase.steps;

  int versions = 0;
  for (int updates = before; updates <= after; ++updates)
    versions = std::max(versions, versions_held(ahead, updates, all));
  predicted.in_flight = std::min(ahead + 1, all);
  predicted.peak_bytes[MemoryCategory::parameters] = versions * footprint.parameters;
  predicted.peak_bytes[MemoryCategory::gradients] = footprint.gradients;
  predicted.peak_bytes[MemoryCategory::optimizer] = footprint.optimizer;
  predicted.peak_bytes[MemoryCategory::activations] = footprint.peak(*predicted.in_flight);
  // A step ends just before the next batch's first forward pass.
  const auto actions_before = [&](int step) {
    return static_cast<std::size_t>(m * step + updates_after(step));
  };
  predicted.peak_bytes[MemoryCategory::communication] =
      footprint.boundary * peak_buffers(MessagePlan{one_f_one_b(p, all), q},
                                        actions_before(phase.first_step), actions_before(end));
  return predicted;
}

}  // namespace lockstep
