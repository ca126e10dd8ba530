#pragma once

#include <string>
#include <vector>

#include "core/plan/model_presets.h"
#include "lessons/17_choosing/plan/configuration.h"

namespace lockstep::exercises {

/// A training task and its cluster.
struct Case {
  std::string name;
  TrainingTask task;
  /// The plan with which others are compared. The planner's search finds no plan whose step is more
  /// than 1 % shorter (tests/planner), but it does not try all schedules.
  Configuration reference;
};

namespace detail {

inline TrainingTask task_of(const std::string& model, int ranks, int batch) {
  TrainingTask task{.model = model_preset(model), .cluster = Cluster::load("h100")};
  task.model.dtype = DType::bf16;
  task.ranks = ranks;
  task.batch = batch;
  return task;
}

/// Divides the bandwidth between nodes.
inline TrainingTask with_slow_links(TrainingTask task, double factor) {
  task.cluster.between.bandwidth /= factor;
  task.cluster.shared->cards->bandwidth /= factor;
  return task;
}

inline TrainingTask with_sequences_of(TrainingTask task, int tokens) {
  task.model.sequence = tokens;
  return task;
}

}  // namespace detail

/// The cases, in the order of task.h.
inline const std::vector<Case>& training_cases() {
  using namespace detail;
  static const std::vector<Case> all{
      // Memory: one replica takes as many GPUs as a microbatch's activations need.
      {"Llama 3 70B on 64 GPUs",
       task_of("llama3-70b", 64, 512),
       {.dp = 4, .tp = 4, .pp = 2, .cp = 2, .zero = 1, .sequence_parallel = true}},
      // Few sequences: a pipeline has too few microbatches to fill.
      {"Llama 3 70B on 256 GPUs",
       task_of("llama3-70b", 256, 64),
       {.dp = 64, .tp = 2, .cp = 2, .zero = 3, .sequence_parallel = true}},
      // Scale: 8 GPUs per sequence.
      {"Llama 3 405B on 16,384 GPUs",
       task_of("llama3-405b", 16'384, 2048),
       {.dp = 256,
        .tp = 4,
        .pp = 8,
        .cp = 2,
        .zero = 1,
        .schedule = "interleaved",
        .chunks = 9,
        .recompute = Recompute::full,
        .sequence_parallel = true}},
      // Activations: eight times as many per sequence as in the second case.
      {"Llama 3 70B with long sequences",
       with_sequences_of(task_of("llama3-70b", 256, 64), 65'536),
       {.dp = 8, .tp = 4, .cp = 8, .zero = 3, .sequence_parallel = true}},
      // Bytes between nodes: the messages of a pipeline are the smallest.
      {"a GPT of 22B on slow links",
       with_slow_links(task_of("gpt-22b", 32, 256), 8),
       {.dp = 8,
        .pp = 4,
        .zero = 1,
        .microbatch = 2,
        .schedule = "zb-v",
        .chunks = 2,
        .sequence_parallel = false}}};
  return all;
}

}  // namespace lockstep::exercises
