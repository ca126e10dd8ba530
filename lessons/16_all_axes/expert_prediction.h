#pragma once

#include <algorithm>
#include <utility>
#include <vector>

#include "lessons/12_expert_parallel/prediction.h"
#include "lessons/15_3d/prediction.h"
#include "lessons/16_all_axes/all_axes.h"

namespace lockstep {

/// The routing of one step on one rank.
class RoutedStep {
 public:
  /// Reads the routings of m microbatches from the log. Their numbers begin with `first`, counted
  /// over all steps.
  RoutedStep(const Plan& plan, const Place& place, RoutingLog& log, int m, std::int64_t first) {
    const StageLayers layers = plan.layers_of(place.only_stage());
    for (int i = 0; i < m; ++i) {
      auto& microbatch = routed_.emplace_back();
      auto& rows = rows_.emplace_back();
      for (int layer = layers.first; layer < layers.last; ++layer) {
        const RoutingLog::Calls& calls =
            log.calls(replica_of(plan.mesh, place.rank), layer, place.coordinate(Axis::tp));
        microbatch.push_back(&calls.at(static_cast<std::size_t>(first + i)));
        rows.emplace_back(*microbatch.back());
      }
    }
  }

  /// The routings of a microbatch, by layer of the stage, and the rows that follow from them.
  const std::vector<const RoutedMicrobatch*>& routed(int microbatch) const {
    return routed_[static_cast<std::size_t>(microbatch)];
  }
  const std::vector<ExchangedRows>& rows(int microbatch) const {
    return rows_[static_cast<std::size_t>(microbatch)];
  }

 private:
  std::vector<std::vector<const RoutedMicrobatch*>> routed_;
  std::vector<std::vector<ExchangedRows>> rows_;
};

/// Returns the bytes that a rank sends along ep in a step: every microbatch has its own routing.
inline std::int64_t sent_along_ep(const Plan& plan, const Place& place, const RoutedStep& step,
                                  int m, const AllAxes& chosen) {
  const std::int64_t row = width_of(plan) * plan.model().hidden;
  const auto self = static_cast<std::size_t>(place.coordinate(Axis::ep));
  std::int64_t bytes = 0;
  for (int i = 0; i < m; ++i)
    for (const RoutedMicrobatch* routed : step.routed(i))
      for (std::size_t member = 0; member < routed->sent.size(); ++member)
        if (member != self) bytes += bytes_to(member, *routed, chosen.moe, row, chosen.forwards());
  return bytes;
}

/// Returns the bytes of a layer's messages for its experts in one pass: rows, and the sums over tp
/// of the gradients of N k probabilities.
inline std::int64_t messages_of_experts(const Plan& plan, const Place& place, Op op,
                                        const ExchangedRows& rows, std::int64_t tokens,
                                        const MixtureOfExperts& moe) {
  const std::int64_t row = width_of(plan) * plan.model().hidden;
  const std::int64_t exchange = expert_messages(rows, moe, place.size(Axis::ep), row);
  if (op == Op::forward) return exchange;
  return std::max(exchange, 4 * ring_scratch(tokens * moe.top_k, plan, place.size(Axis::tp)));
}

/// Returns the peak of a rank's activations in a step. In a pipeline, several microbatches are in
/// flight, each with its own routing. `stage` is without recomputation.
inline std::int64_t peak_of_routed(const Schedule& schedule, int pipeline_rank,
                                   const TensorFootprint& stage,
                                   const ExpertActivations& activations, const RoutedStep& step,
                                   Recompute mode) {
  const bool full = mode == Recompute::full;
  const auto kept = [&](const ExchangedRows& rows) {
    return full ? stage.boundary : activations.saved(rows);
  };
  std::int64_t held = 0, peak = 0;
  const auto reach = [&](std::int64_t bytes) { peak = std::max(peak, bytes); };
  for (const Action& action : schedule.actions[static_cast<std::size_t>(pipeline_rank)]) {
    const std::vector<ExchangedRows>& layers = step.rows(action.microbatch);
    if (action.op == Op::forward) {
      for (const ExchangedRows& rows : layers) {
        reach(held + activations.forward(rows));
        held += kept(rows);
      }
      held += stage.head;
      if (stage.layers.head) reach(held + stage.forward_working);
      continue;
    }
    if (stage.layers.head) reach(held + activations.head_backward());
    held -= stage.head;
    for (auto rows = layers.rbegin(); rows != layers.rend(); ++rows) {
      held -= kept(*rows);
      if (full) reach(held + stage.boundary + activations.forward(*rows));
      reach(held + activations.backward(*rows));
    }
  }
  return peak;
}

}  // namespace lockstep
