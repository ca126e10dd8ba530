#pragma once

#include <optional>
#include <string>
#include <vector>

#include "core/plan/prediction.h"
#include "core/text/console.h"
#include "viz/read/timeline/pipeline_analysis.h"
#include "viz/read/timeline/step_account.h"

namespace lockstep {

/// The figures that explain the length of a pipeline's step (viz/read/timeline/pipeline_analysis.h
/// defines them), for the tables of the report.
struct PipelineStep {
  struct OfRank {
    int rank = 0;
    int in_flight = 0;  ///< peak number of microbatches; of pairs with chunks, if several
  };
  int step = 0;
  int chunks = 0;  ///< the most stages of a rank; see most_chunks()
  CriticalPath path;
  std::vector<OfRank> ranks;
};

/// Returns the last step of a phase whose actions are in the timeline, or nothing.
std::optional<PipelineStep> observe_step(const Timeline& timeline, const Phase& phase);

/// The table of the bubble and its parts, one row per rank of `pipeline`. `account` belongs to the
/// same step; `predicted` holds the predicted peak of microbatches in flight of every rank of the
/// run, or nothing.
std::string bubble_by_part(const PipelineStep& seen, const StepAccount& account,
                           const std::vector<int>& pipeline,
                           const std::vector<std::optional<int>>& predicted);
/// A line that names the parts of the critical path.
std::string critical_path_line(const PipelineStep& seen);

}  // namespace lockstep
