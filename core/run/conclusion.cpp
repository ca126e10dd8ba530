#include "core/run/conclusion.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <optional>

#include "core/base/error.h"
#include "core/base/print.h"
#include "core/model/builder.h"
#include "core/operations/operations_file.h"
#include "core/run/active_run.h"
#include "core/run/reference/trained_model.h"
#include "viz/read/report/report.h"
#include "viz/read/timeline/reader.h"

namespace lockstep {

namespace {

/// Merges the ranks' traces, and reads them for the report unless a rank's trace is truncated.
/// Returns whether the trace is complete.
bool read_trace(ActiveRun& run, Report& report) {
  const int ranks = run.options.plan.mesh.ranks();
  if (const std::string why = run.recording.folder.merge(ranks); !why.empty())
    run.recording.warn(why + "; each rank's own file is there");
  if (!run.recording.folder.is_complete(ranks)) return false;
  const ReadReport read = read_traces(run.recording.folder.rank_files(ranks), report.timeline);
  if (read.malformed > 0)
    print_error("the trace has {} unreadable lines; the first: {}\n", read.malformed,
                read.first_malformed);
  report.look_at_timeline(run.collected.split_proposals);
  return true;
}

void check_finite(const std::vector<double>& losses, const Options& options) {
  const auto lost =
      std::ranges::find_if_not(losses, [](double loss) { return std::isfinite(loss); });
  if (lost == losses.end()) return;
  // The first loss is computed before any update.
  if (lost == losses.begin() && !options.run.load.empty())
    throw RunError(
        fmt::format("the first loss, before any update, is not a number: the values in {} are too "
                    "large; --load "
                    "another checkpoint",
                    options.run.load));
  throw RunError(fmt::format("the loss is not a number from step {} on; try a smaller --lr than {}",
                             lost - losses.begin(), options.plan.optimizer.learning_rate));
}

/// Trains on a single device and compares the results with the run's. If the deviation exceeds the
/// tolerance, trains once more, adding the replicas' gradients in the run's order. Returns whether
/// parity holds, including in the lesson's own comparison.
bool check_parity(ActiveRun& run, const std::vector<NamedValues>& parameters,
                  const Tolerance& tolerance, Report& report) {
  Options reference_options = run.options;
  if (run.info.f32_reference) set_model(reference_options.plan, &GptConfig::dtype, DType::f32);
  const int steps = run.options.run.steps;
  Progress progress{run.console, steps, run.options.output.quiet || !run.console.terminal};
  const std::vector<Phase> phases = report.phases();
  const std::function<void(int)> show = [&](int done) {
    progress.show(done, fmt::format("reference run on one device: step {}/{}", done, steps));
  };
  const auto train = [&](const std::vector<SumOrder>& orders) {
    if (run.reference)
      if (auto own = run.reference({reference_options, run.corpus, phases, show, orders})) {
        report.compared_with = run.reference_name;
        return *std::move(own);
      }
    return train_on_one_device(reference_options, run.corpus, phases, show, orders);
  };
  const Reference reference = train({});
  report.reference_dtype = reference_options.plan.model().dtype;
  report.reference_losses = reference.losses;
  report.parity = compare(report.losses, parameters, reference);
  if (run.difference) report.difference = run.difference();
  if (report.parity->within(tolerance)) return report.difference.empty();
  if (std::ranges::any_of(run.collected.orders, &SumOrder::empty)) return false;
  report.same_in_order = compare(report.losses, parameters, train(run.collected.orders)).bitwise;
  return *report.same_in_order && report.difference.empty();
}

std::string parity_failure(const Report& report, const Tolerance& tolerance, Collectives comm) {
  if (report.parity->within(tolerance) || report.same_in_order.value_or(false))
    return fmt::format("parity failed: {}\n", report.difference);
  return fmt::format("parity failed: the run differs from {} ({}){}{}\n", report.compared_with,
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
                     report.difference.empty() ? "" : "; " + report.difference);
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

/// Finds changes that would shorten the last step: by replays on the modelled clock, otherwise by
/// estimates from the last phase's steps, except its first.
Counterfactuals what_would_help(ActiveRun& run, const RunOperations* operations,
                                const Report& report) {
  if (operations != nullptr)
    return what_would_help(*operations, Scenario{operations->modelled}, run.options.run.steps - 1,
                           run.alternatives);
  const Phase phase = report.phases().back();
  std::vector<int> steps;
  for (int i = phase.steps > 1 ? 1 : 0; i < phase.steps; ++i) steps.push_back(phase.first_step + i);
  return estimate_what_would_help(report.timeline, steps);
}

}  // namespace

int conclude(ActiveRun& run) {
  const Options& options = run.options;
  const Output& output = options.output;
  Report report{.options = options,
                .run = run.recording.folder.run,
                .lesson = run.info.name,
                .ranks = std::move(run.collected.results)};
  report.own = std::move(run.collected.lesson_json);
  report.uncomputed = options.platform.on_meta() && run.info.trains;
  const bool traced = run.recording.writer && read_trace(run, report);
  std::optional<RunOperations> operations;
  if (run.recording.operations) operations = operations_of(run);
  if (traced) report.better = what_would_help(run, operations ? &*operations : nullptr, report);

  bool parity = true;
  const Tolerance& tolerance =
      is_narrow(options.plan.model().dtype) ? run.info.narrow_tolerance : run.info.tolerance;
  if (std::ranges::any_of(report.ranks, [](const RankResults& rank) {
        return !rank.parameters.empty();
      })) {  // a model was trained
    report.losses = collect_losses(report.ranks, options.run.steps);
    check_finite(report.losses, options);
    if (!run.collected.not_saved.empty()) throw RunError(run.collected.not_saved);
    const auto parameters = collect_parameters(report.ranks);
    if (output.parity) parity = check_parity(run, parameters, tolerance, report);
    report.sample = sample_of(options, run.corpus, parameters);
  }

  if (!output.quiet) fmt::print("{}", report.text(run.console));
  Recording& recording = run.recording;
  if (recording.writer)
    if (const std::string why = recording.folder.write_report(report.json()); !why.empty())
      recording.warn(why);
  if (operations)
    if (const std::string why = recording.folder.write_operations(text_of(*operations));
        !why.empty())
      recording.warn(why);
  if (!output.quiet && recording.writer)
    fmt::print("{}\n", traced ? recording.folder.how_to_look(output.view)
                              : "the trace is not complete, so the report has no figures from it" +
                                    recording.folder.where_the_trace_is());
  if (!output.quiet && output.trace_left_out && recording.operations)
    fmt::print("{}\n", recording.folder.how_to_retime());
  if (!parity) print_error("{}", parity_failure(report, tolerance, options.plan.collectives));
  if (!output.report.empty()) write_text_file(output.report, report.json());
  return parity ? 0 : 1;
}

}  // namespace lockstep
