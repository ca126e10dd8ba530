#pragma once

#include <string>
#include <vector>

#include "lessons/17_choosing/plan/request.h"
#include "lessons/17_choosing/plan/rerun.h"

namespace lockstep {

/// Writes the result of a search as JSON: the task, what was cut, and for each of `plans` its
/// sizes, the flags of lesson 17, its step and the parts of it (seconds), its memory by category
/// (bytes) and, if it was run again, the results of that run. Throws UsageError if the file can't
/// be written.
void write_report(const PlanRequest& request, const SearchResult& found,
                  const std::vector<RankedPlan>& plans, const std::vector<MetaRun>& reruns);

}  // namespace lockstep
