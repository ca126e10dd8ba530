#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "core/model/adamw.h"
#include "core/model/data.h"
#include "core/model/gpt.h"
#include "core/plan/prediction.h"
#include "core/run/active/batches.h"
#include "core/run/active/hooks.h"
#include "core/run/options/flag_parser.h"
#include "core/run/rank/rank.h"

namespace lockstep {

class SignalWatch;

/// The framework of a lesson: flags, ranks, data, and the report at the end of every run (timeline,
/// predicted against observed figures, parity, a line that the trained model generates).
///
///   int main(int argc, char** argv) {
///     Lesson lesson{{.name = "09 1F1B", .question = "..."}, argc, argv};
///     return lesson.run([&](Rank& rank) { ... });   // once per rank
///   }
class Lesson {
 public:
  Lesson(LessonInfo info, int argc, char** argv);
  ~Lesson();
  Lesson(const Lesson&) = delete;
  Lesson& operator=(const Lesson&) = delete;

  /// Adds a lesson-specific flag. The reference is valid for the lesson's lifetime and holds the
  /// flag's value once run() has begun.
  template <class T>
  const T& flag(const std::string& name, T otherwise, const std::string& help) {
    auto value = std::make_shared<T>(std::move(otherwise));
    flags_.add(name, *value, help);
    flag_values_.push_back(value);
    return *value;
  }

  /// Adds a flag that takes one of several words.
  const std::string& flag(const std::string& name, std::string otherwise,
                          const std::vector<std::string>& words, const std::string& help) {
    auto value = std::make_shared<std::string>(std::move(otherwise));
    flags_.add(name, *value, words, help);
    flag_values_.push_back(value);
    return *value;
  }

  /// What this lesson replaces or adds; to be set before run().
  Hooks hooks;

  /// Parses the flags, starts the ranks, calls `body` on each, and starts the reader, which prints
  /// the report. Returns the process's exit code: 0 for success, 1 if the run failed, 2 if the
  /// flags asked for something impossible.
  int run(const std::function<void(Rank&)>& body);

  // For use in the body.

  const Options& options() const { return *options_; }
  const GptConfig& model() const { return options_->plan.model(); }
  const AdamWOptions& optimizer() const { return options_->plan.optimizer; }
  std::uint64_t seed() const { return options_->plan.seed; }

  /// The run's steps, divided among the values of --microbatches.
  std::vector<Phase> phases() const;
  /// The run's steps for a single value of m, as two phases: `before` until step `split`, then
  /// `after`.
  std::vector<Phase> phases(const std::string& before, const std::string& after, int split) const;
  /// Divides the run's steps among `values`, which are tried one after another. Returns each value
  /// with its phase, named `name(value)`. If there are fewer steps than values, only the first
  /// values get a step.
  template <class T, class Name>
  std::vector<std::pair<T, Phase>> phases_for(const std::vector<T>& values,
                                              const Name& name) const {
    std::vector<std::pair<T, Phase>> phases;
    for (std::size_t i = 0; i < values.size(); ++i)
      if (Phase phase = part_of_steps(i, values.size()); phase.steps > 0) {
        phase.name = name(values[i]);
        phases.emplace_back(values[i], std::move(phase));
      }
    return phases;
  }

  /// Every rank must call this once before it trains. With --load, replaces the values of
  /// `parameters` (or slices of them) with the checkpoint's. If the checkpoint has optimizer state,
  /// restores that too, so that training resumes on any number of ranks.
  void load(Rank& rank, const std::vector<Parameter*>& parameters, AdamW& optimizer);
  /// Iterates over the phase's steps. Each batch is the step's data for this rank, divided into the
  /// phase's microbatches. Peaks and byte counts are recorded per phase and compared with the
  /// prediction. If the parity check fails, it is repeated with gradients added in the prediction's
  /// order. Throws std::logic_error if a peak has neither a prediction nor a reason for lacking
  /// one.
  Batches batches(Rank& rank, const Phase& phase, const Predicted& predicted);
  /// Records the step's loss; a rank that does not know the loss passes nothing. If there are
  /// several replicas, each passes its share; the shares add up to the batch's mean.
  void record_loss(const Rank& rank, std::optional<double> loss);
  /// Every rank must call this once, with the parameters (or slices) that it trained and their
  /// optimizer. Saves and exports them, as --save and --export specify, and collects them for the
  /// comparison with a single-device run.
  void finish(Rank& rank, const std::vector<Parameter*>& parameters, const AdamW& optimizer);
  /// Adds the lesson's own JSON to the report, as results.`name`. Only rank 0's JSON is kept.
  void add_to_report(const Rank& rank, const std::string& name, const std::string& json);

 private:
  /// The i-th of `count` nearly equal parts of the run's steps, without a name.
  Phase part_of_steps(std::size_t i, std::size_t count) const;
  int run_watched(const std::function<void(Rank&)>& body);
  int run_checked(const std::function<void(Rank&)>& body, SignalWatch& watch);

  LessonInfo info_;
  int argc_;
  char** argv_;
  FlagParser flags_;
  std::vector<std::shared_ptr<void>> flag_values_;
  std::unique_ptr<Options> options_;
  std::unique_ptr<Corpus> corpus_;
  std::unique_ptr<ActiveRun> active_;
};

}  // namespace lockstep
