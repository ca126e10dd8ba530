#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "core/operations/run_operations.h"
#include "core/plan/plan.h"
#include "core/run/options/options.h"

namespace lockstep {

class ModelBuilder;
struct Reference;
struct ReferenceRun;

/// A run that a lesson offers for comparison: the same run with one thing changed.
struct AlternativeRun {
  std::string what;                                     ///< "equally many tokens for every expert"
  std::function<RunOperations(const Options&)> record;  ///< without ranks if there is no such run
};

/// The parts of a run that a lesson replaces or adds; Lesson's functions set and describe them. An
/// empty function means that the lesson does not.
struct Hooks {
  std::vector<std::function<void(const Options&)>> checks;
  std::function<std::shared_ptr<const ModelBuilder>(const Options&)> builder;
  std::function<std::vector<int>(const Options&)> placement;
  std::function<Plan(const Plan&)> division;
  std::vector<std::string> chosen_by_time;
  std::function<std::string()> difference;
  std::function<std::string()> advice;
  std::string reference_name;
  std::function<std::optional<Reference>(const ReferenceRun&)> reference;
  std::vector<AlternativeRun> alternatives;
};

}  // namespace lockstep
