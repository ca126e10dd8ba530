#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "viz/read/timeline/timeline.h"

namespace lockstep::viz {

/// The tokens that each expert of one layer gets, summed over the ranks and microbatches of a step.
struct LayerLoad {
  int layer = -1;                      ///< -1 if the trace does not say
  std::vector<std::int64_t> accepted;  ///< tokens, by expert
  std::vector<std::int64_t> dropped;   ///< because the expert was full, by expert

  std::int64_t chosen(std::size_t expert) const { return accepted[expert] + dropped[expert]; }
  std::int64_t sum() const;  ///< of all experts' chosen()
  double mean() const;       ///< the same, per expert
  std::size_t busiest() const;
  /// Returns the busiest expert's load as a multiple of the mean.
  double imbalance() const;
};

/// The load of the experts in a step.
struct ExpertLoad {
  int step = -1;
  std::vector<LayerLoad> layers;  ///< ascending
  std::int64_t highest() const;   ///< chosen() of the busiest expert of all layers

  /// Returns the index of the layer with the largest imbalance. There must be at least one layer.
  std::size_t least_balanced() const;
};

/// Returns whether the run has routers that count tokens.
bool counts_experts(const Timeline& timeline);

/// Reads the counters "tokens per expert" of a step.
ExpertLoad expert_load(const Timeline& timeline, int step);

/// Explains the load of one layer, or of all layers, in sentences.
std::vector<std::string> load_sentences(const ExpertLoad& load, std::optional<std::size_t> layer);

/// Returns the lines that explain one expert.
std::vector<std::string> expert_words(const LayerLoad& layer, std::size_t expert);

}  // namespace lockstep::viz
