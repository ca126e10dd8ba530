#include "core/run/life/conclusion.h"

#include <fmt/format.h>

#include <cstdlib>
#include <filesystem>
#include <optional>

#include "core/base/error.h"
#include "core/base/print.h"
#include "core/base/printable.h"
#include "core/operations/operations_file.h"
#include "core/run/active/active_run.h"
#include "core/run/launch/reader.h"
#include "core/run/options/training.h"
#include "core/run/results/config_json.h"
#include "core/run/results/run_results.h"

namespace lockstep {

namespace {

std::string parity_failure(const RunResults& results, Collectives comm) {
  const Tolerance& tolerance = results.tolerance;
  if (results.parity->within(tolerance) || results.same_in_order.value_or(false))
    return fmt::format("parity failed: {}\n", results.difference);
  return fmt::format("parity failed: the run differs from {} ({}){}{}\n", results.compared_with,
                     tolerance.bitwise() ? "they should agree bitwise"
                     : tolerance.final_loss > 0
                         ? fmt::format("the last tenth's mean loss may differ by {:g} %",
                                       100 * tolerance.final_loss)
                         : fmt::format("losses may differ by {:.0e}, parameters by {:.0e}",
                                       tolerance.loss, tolerance.parameter),
                     comm == Collectives::native
                         ? "; MPI's collectives add in an unknown order; use --comm ring to tell "
                           "rounding from a mistake"
                         : "",
                     results.difference.empty() ? "" : "; " + results.difference);
}

/// Returns the operations that the ranks have recorded, and clears the record.
RunOperations operations_of(ActiveRun& run) {
  RunOperations operations = run.recording.operations->take();
  operations.run = run.recording.folder.run;
  operations.lesson = run.info.name;
  operations.modelled = *run.options.plan.modelled;
  operations.choices = run.options.run.chosen_by_time;
  return operations;
}

/// Everything that the run knows before its model is compared with one device's.
RunResults results_of(ActiveRun& run) {
  const Options& options = run.options;
  const Plan& plan = options.plan;
  RunResults results{.run = run.recording.folder.run, .lesson = run.info.name, .facts = {}};
  results.ranks = std::move(run.collected.results);
  const std::vector<PhaseResults>& phases = results.ranks.front().phases;
  results.facts = facts_json(options, !phases.empty() && phases.front().predicted.stages > 0);
  results.steps = options.run.steps;
  results.modelled = plan.modelled.has_value();
  results.uncomputed = options.platform.on_meta() && run.info.training;
  if (!options.platform.on_meta())
    results.step_tokens = std::int64_t{plan.batch.sequences} * std::int64_t{plan.model().sequence};
  results.stages = plan.stages();
  results.pipeline = plan.mesh.group(0, Axis::pp);
  for (const PhaseResults& phase : phases)
    results.first_microbatches.push_back(plan.microbatches_of(0, phase.phase.microbatches));
  results.dtype = name_of(plan.model().dtype);
  results.tolerance =
      is_narrow(plan.model().dtype) ? run.info.narrow_tolerance : run.info.tolerance;
  results.sample_follows_the = options.run.tokens.empty();
  results.own = std::move(run.collected.lesson_json);
  return results;
}

/// Merges the ranks' traces. Returns whether they are complete.
bool merge_traces(Recording& recording, int ranks) {
  if (!recording.writer) return false;
  if (const std::string why = recording.folder.merge(ranks); !why.empty())
    recording.warn(why + "; each rank's own file is there");
  return recording.folder.is_complete(ranks);
}

/// Writes the results of a run that keeps none to a new folder. Returns it, or "" if that fails.
std::filesystem::path write_temporarily(const std::string& results) {
  std::error_code error;
  std::string name = (std::filesystem::temp_directory_path(error) / "lockstep-XXXXXX").string();
  if (error || ::mkdtemp(name.data()) == nullptr) return {};
  try {
    write_text_file(std::filesystem::path{name} / results_file, results);
    return name;
  } catch (const RunError&) {
    std::filesystem::remove_all(name, error);
    return {};
  }
}

/// What the run prints below its report: where its trace is, and how to go on.
std::string last_lines(const Recording& recording, const Output& output, bool traced) {
  if (output.quiet) return {};
  std::string text;
  if (recording.writer)
    text = traced ? recording.folder.how_to_look(output.view) + "\n"
                  : "the trace is not complete, so the report has no figures from it" +
                        recording.folder.where_the_trace_is() + "\n";
  if (output.trace_left_out && recording.operations)
    text += recording.folder.how_to_retime() + "\n";
  return text;
}

}  // namespace

int conclude(ActiveRun& run) {
  const Options& options = run.options;
  const Output& output = options.output;
  Recording& recording = run.recording;
  RunResults results = results_of(run);
  const bool traced = merge_traces(recording, options.plan.mesh.ranks());
  std::optional<RunOperations> operations;
  if (recording.operations) operations = operations_of(run);
  for (const auto& propose : run.collected.split_proposals)
    results.proposals.push_back(traced && propose ? std::optional{propose()} : std::nullopt);
  results.proposals.resize(results.first_microbatches.size());
  if (traced && operations)
    for (const Hooks::AlternativeRun& each : run.hooks.alternatives)
      if (RunOperations other = each.record(options); !other.ranks.empty())
        results.alternatives.push_back({each.what, std::move(other)});
  const bool parity = run.info.training == nullptr || run.info.training->check_model(run, results);

  if (operations)
    if (const std::string why = recording.folder.write_operations(text_of(*operations));
        !why.empty())
      recording.warn(why);
  const std::string report = report_json(results);
  std::filesystem::path folder, temporary;
  if (recording.writer) folder = recording.folder.path;
  if (!folder.empty())
    if (const std::string why = recording.folder.write_results(text_of(results), report);
        !why.empty()) {
      recording.warn(why);
      folder.clear();
    }
  const bool read = !output.quiet || (traced && !output.report.empty());
  if (folder.empty() && read) folder = temporary = write_temporarily(text_of(results));

  std::vector<std::string> arguments{"report", folder.string()};
  if (output.quiet) arguments.emplace_back("--quiet");
  arguments.insert(arguments.end(), {"--detail", output.detail});
  if (traced && !output.report.empty())
    arguments.insert(arguments.end(), {"--json", output.report});
  std::string failure = parity ? "" : parity_failure(results, options.plan.collectives);
  try {
    if (!output.report.empty()) write_text_file(output.report, report);
  } catch (const RunError& error) {
    failure += printable(error.what()) + "\n";
  }
  run.farewell = [=, last = last_lines(recording, output, traced)] {
    if (read && folder.empty())
      print_error("no report: the run's results can't be written to a temporary folder\n");
    else if (read)
      run_reader(arguments);
    std::error_code error;
    if (!temporary.empty()) std::filesystem::remove_all(temporary, error);
    fmt::print("{}", last);
    if (!failure.empty()) print_error("{}", failure);
  };
  return failure.empty() ? 0 : 1;
}

}  // namespace lockstep
