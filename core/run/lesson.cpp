#include "core/run/lesson.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "core/base/error.h"
#include "core/model/builder.h"
#include "core/model/checkpoint/checkpoint.h"
#include "core/model/checkpoint/model_file.h"
#include "core/model/stored_state.h"
#include "core/run/active/active_run.h"
#include "core/run/active/save.h"
#include "core/run/options/memory_needed.h"
#include "core/run/options/training.h"
#include "core/run/reference/parity.h"
#include "core/run/reference/trained_model.h"
#include "core/run/results/run_results.h"

namespace lockstep {

namespace {

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
bool check_parity(ActiveRun& run, const std::vector<NamedValues>& parameters, RunResults& results) {
  Options reference_options = run.options;
  if (run.info.f32_reference) set_model(reference_options.plan, &GptConfig::dtype, DType::f32);
  const int steps = run.options.run.steps;
  Progress progress{run.console, steps, run.options.output.quiet || !run.console.terminal};
  const std::vector<Phase> phases = results.phases();
  const std::function<void(int)> show = [&](int done) {
    progress.show(done, fmt::format("reference run on one device: step {}/{}", done, steps));
  };
  const auto train = [&](const std::vector<SumOrder>& orders) {
    if (run.hooks.reference.train)
      if (auto own =
              run.hooks.reference.train({reference_options, run.corpus, phases, show, orders})) {
        results.compared_with = run.hooks.reference.name;
        return *std::move(own);
      }
    return train_on_one_device(reference_options, run.corpus, phases, show, orders);
  };
  const Reference reference = train({});
  results.reference_dtype = name_of(reference_options.plan.model().dtype);
  results.reference_losses = reference.losses;
  results.parity = compare(results.losses, parameters, reference);
  if (run.hooks.compare) results.difference = run.hooks.compare();
  if (results.parity->within(results.tolerance)) return results.difference.empty();
  if (std::ranges::any_of(run.collected.orders, &SumOrder::empty)) return false;
  results.same_in_order = compare(results.losses, parameters, train(run.collected.orders)).bitwise;
  return *results.same_in_order && results.difference.empty();
}

/// Compares the trained model with one device's, and lets it speak. Returns whether parity holds.
/// Throws RunError if a loss is not finite.
bool check_model(ActiveRun& run, RunResults& results) {
  if (std::ranges::all_of(results.ranks,
                          [](const RankResults& rank) { return rank.parameters.empty(); }))
    return true;  // no model was trained
  results.losses = collect_losses(results.ranks, run.options.run.steps);
  check_finite(results.losses, run.options);
  if (!run.collected.not_saved.empty()) throw RunError(run.collected.not_saved);
  const auto parameters = collect_parameters(results.ranks);
  const bool parity = !run.options.output.parity || check_parity(run, parameters, results);
  results.sample = sample_of(run.options, run.corpus, parameters);
  return parity;
}

}  // namespace

const Training model_training{.described_model = described_model,
                              .check_paths = check_saving,
                              .check_memory = check_memory,
                              .check_files = check_files,
                              .check_model = check_model};

Lesson::Lesson(LessonInfo info, int argc, char** argv)
    : BareLesson((info.training = &model_training, std::move(info)), argc, argv) {}

void Lesson::load(Rank& rank, const std::vector<Parameter*>& parameters, AdamW& optimizer) {
  if (rank.trace.on()) rank.trace.metadata("slices", stored_state(parameters, optimizer).json());
  const std::string& path = options_->run.load;
  if (path.empty()) return;
  load_checkpoint(path, rank.plan, rank.device, parameters);
  // A distributed optimizer's slices have their own master copies.
  load_checkpoint(path, rank.plan, rank.device, optimizer.parameters());
  load_moments(path, optimizer);
  check_unchanged(path, options_->run.loaded_state);
}

void Lesson::record_loss(const Rank& rank, std::optional<double> loss) {
  if (loss) active_->ranks.meter(rank).record_loss(*loss);
}

void Lesson::finish(Rank& rank, const std::vector<Parameter*>& parameters, const AdamW& optimizer) {
  save(*active_, rank, parameters, optimizer);
  if (!active_->stop.ended_early()) active_->ranks.meter(rank).record_values(parameters);
}

}  // namespace lockstep
