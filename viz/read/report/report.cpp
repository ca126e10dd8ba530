#include "viz/read/report/report.h"

#include "core/base/print.h"
#include "core/operations/operations_file.h"
#include "core/run/files/run_folder.h"
#include "viz/read/report/texts.h"
#include "viz/read/timeline/reader.h"

namespace lockstep {

void Report::look_at_timeline() {
  const std::vector<int>& pipeline = results.pipeline;
  for (std::size_t p = 0; p < results.ranks.front().phases.size(); ++p) {
    const PhaseResults& phase = results.ranks.front().phases[p];
    bubbles.push_back(observe_bubble(timeline, phase.phase, phase.predicted, pipeline));
    steps.push_back(observe_step(timeline, phase.phase));
    balances.emplace_back();
    if (steps.back() && phase.predicted.stages > 1)
      balances.back() = observe_balance(timeline, steps.back()->step, pipeline,
                                        phase.predicted.stages, results.first_microbatches[p]);
    if (balances.back()) balances.back()->proposal = results.proposals[p];
    where.push_back(observe_steps(timeline, phase.phase));
  }
}

std::string Report::text(const Console& console, Detail detail) const {
  if (detail == Detail::brief) return brief_text(*this, console);
  return detail == Detail::summary ? summary_text(*this, console) : full_text(*this, console);
}

Report read_run(const std::filesystem::path& folder) {
  Report report{.results = read_results((folder / results_file).string()), .timeline = {}};
  const RunFolder run{report.results.run, folder, nullptr};
  const int ranks = static_cast<int>(report.results.ranks.size());
  if (!run.is_complete(ranks)) return report;
  const ReadReport read = read_traces(run.rank_files(ranks), report.timeline);
  if (read.malformed > 0)
    print_error("the trace has {} unreadable lines; the first: {}\n", read.malformed,
                read.first_malformed);
  report.look_at_timeline();
  const int last = report.results.steps - 1;
  if (std::filesystem::exists(folder / "operations.json")) {
    const RunOperations operations = read_operations(folder.string());
    report.better = what_would_help(operations, Scenario{operations.modelled}, last,
                                    report.results.alternatives);
  } else if (!report.results.ranks.front().phases.empty()) {
    const Phase phase = report.results.phases().back();
    std::vector<int> steps;
    for (int i = phase.steps > 1 ? 1 : 0; i < phase.steps; ++i)
      steps.push_back(phase.first_step + i);
    report.better = estimate_what_would_help(report.timeline, steps);
  }
  return report;
}

}  // namespace lockstep
