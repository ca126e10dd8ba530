#pragma once

#include <string>
#include <vector>

#include "lessons/17_choosing/plan/search.h"

namespace lockstep {

/// Returns the share of the peak that a step of this length reaches, counting the model's FLOPs
/// (GptConfig::flops_per_token: without recomputation, causal attention counted half).
double model_flops_utilization(const TrainingTask& task, Picoseconds step);

/// Returns a table of plans: sizes, step, memory, and the parts of the slowest rank's step.
std::string ranking_table(const TrainingTask& task, const std::vector<RankedPlan>& plans);

/// Returns one sentence on why plan `i`, counted from 0, is slower than the first: the part of its
/// step that is longest in comparison. With `replays`, also says how long the plan would take
/// without exposed communication, or how much collectives slow its kernels, if this part is the
/// longest.
std::string why_slower(const TrainingTask& task, const std::vector<RankedPlan>& plans,
                       std::size_t i, bool replays = true);

/// Returns the memory of a plan's fullest rank, by category, in words.
std::string memory_text(const TrainingTask& task, const RankedPlan& plan);

}  // namespace lockstep
