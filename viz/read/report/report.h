#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "core/run/results/run_results.h"
#include "core/text/console.h"
#include "viz/read/explain/counterfactuals.h"
#include "viz/read/report/bubble_parts.h"
#include "viz/read/report/pipeline_step.h"
#include "viz/read/report/stage_balance.h"
#include "viz/read/report/where_it_goes.h"
#include "viz/read/timeline/timeline.h"

namespace lockstep {

/// How much of a report is printed.
enum class Detail {
  brief,    ///< the timeline, one sentence and what became of the model
  summary,  ///< at most 25 lines
  full,     ///< every table
};

/// The report on a finished run, as text and as JSON.
struct Report {
  RunResults results;
  Timeline timeline;                                    ///< empty without a complete trace
  std::vector<ObservedBubble> bubbles{};                ///< by phase
  std::vector<std::optional<PipelineStep>> steps{};     ///< by phase; unset without a pipeline
  std::vector<std::optional<StageBalance>> balances{};  ///< by phase; unset for one stage
  std::vector<ObservedSteps> where{};                   ///< by phase
  Counterfactuals better{};                             ///< of the last step

  /// Measures bubbles, steps and the stages' times in `timeline`.
  void look_at_timeline();

  std::string text(const Console& console, Detail detail) const;
  /// report_json(results), with the figures from the trace.
  std::string json() const;
};

/// Reads a run's results.json, its trace and its operations. Prints a line on stderr if the trace
/// has unreadable lines. Throws UsageError if the folder has no valid results.
Report read_run(const std::filesystem::path& folder);

}  // namespace lockstep
