#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "lessons/17_choosing/plan/bound.h"
#include "lessons/17_choosing/plan/evaluate.h"
#include "lessons/17_choosing/plan/space.h"

namespace lockstep {

/// A configuration that was replayed.
struct RankedPlan {
  Configuration configuration;
  StepFigures figures;
  LowerBounds bounds;
};

/// Returns the fastest plan of each mesh that was replayed, as indices, the fastest first.
std::vector<std::size_t> best_of_each_mesh(const std::vector<RankedPlan>& plans);

/// The result of a search.
struct SearchResult {
  std::vector<RankedPlan> plans;      ///< those that fit, the fastest first
  std::vector<RankedPlan> too_large;  ///< replayed or recorded, but above the memory
  std::size_t considered = 0;         ///< configurations that the lesson can run
  std::size_t cut_by_memory = 0;      ///< whose lower bound does not fit
  std::size_t cut_by_time = 0;        ///< whose lower bound is no better than the best plan
  std::size_t left = 0;               ///< might be better than the best, but were not replayed
  /// If nothing fits: the configuration with the least memory, by its bound.
  std::optional<Configuration> smallest;
  std::int64_t smallest_memory = 0;
  std::string why_refused{};  ///< why the lesson can't run some configuration, or empty
};

/// Adds other replayed plans to a result, except those that it already contains.
void add(SearchResult& result, const std::vector<RankedPlan>& plans);

/// Searches for the configuration with the shortest step that fits into the cluster's memory. Lower
/// bounds cut configurations that can't be the best. Of the rest, an estimate selects the `replays`
/// configurations to record and replay and, for comparison, a quarter as many others, up to two on
/// each other mesh. `progress`, if given, receives the progress of the search.
SearchResult search(const TrainingTask& task, const SearchSpace& space, std::size_t replays = 20,
                    const std::function<void(const std::string&)>& progress = {});

}  // namespace lockstep
