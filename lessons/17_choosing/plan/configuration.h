#pragma once

#include <cstdint>
#include <string>

#include "core/model/builder.h"
#include "core/plan/plan.h"
#include "lessons/16_all_axes/all_axes.h"
#include "lessons/schedules/registry.h"

namespace lockstep {

/// A model to train, and the machine to train it on: the question to which a Configuration is an
/// answer.
struct TrainingTask {
  GptConfig model;
  MixtureOfExperts moe{.experts = 0};  ///< 0: dense MLPs
  Cluster cluster;
  int ranks = 1;
  int batch = 1;                            ///< sequences per step
  std::int64_t bucket_bytes = 256'000'000;  ///< of gradients
  bool sequence_parallel = true;            ///< along tp, if tp has more than one rank
};
/// Returns the number of parameters of the whole model, with all experts.
std::int64_t total_parameters(const TrainingTask& task);
/// Returns the model FLOPs of a step per token (GptConfig::flops_per_token), with the `top_k`
/// experts that process it.
double flops_per_token(const TrainingTask& task);

/// One way to train it. Each number is explained in the lesson of its technique: lessons 2 to 5 for
/// dp and zero, 6 and 7 for tp, 8 to 11 for pp, schedule and chunks, 12 for ep, 13 for cp, 14 for
/// recomputation.
struct Configuration {
  int dp = 1, tp = 1, pp = 1, cp = 1;
  int ep = 1;                     ///< ranks of dp × cp that divide the experts
  int zero = 0;                   ///< 0, or ZeRO stage 1, 2 or 3
  int microbatch = 1;             ///< sequences of one microbatch of one replica
  std::string schedule = "1f1b";  ///< KnownSchedule::word
  int chunks = 1;                 ///< stages per rank
  Recompute recompute = Recompute::selective;
  bool sequence_parallel = true;  ///< along tp

  int ranks() const { return dp * tp * pp * cp; }
  /// Returns m, the microbatches of a step.
  int microbatches(int batch) const { return batch / dp / microbatch; }
  bool operator==(const Configuration&) const = default;

  /// Returns "TP 8, PP 4, DP 2, ...", without parts that have no effect.
  std::string text() const;
  /// Returns the flags of lesson 17 that choose this configuration.
  std::string flags(const TrainingTask& task) const;
};

/// A configuration of a task as a Plan, and the other inputs of a rank of lesson 17.
struct PlannedRun {
  Plan plan;
  AllAxes chosen;
  Schedule schedule;
};

/// Returns lesson 17's run of this configuration. Throws UsageError if the lesson rejects it.
PlannedRun planned_run(const TrainingTask& task, const Configuration& configuration);

}  // namespace lockstep
