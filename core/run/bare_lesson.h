#pragma once

#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "core/model/data.h"
#include "core/plan/prediction.h"
#include "core/run/active/batches.h"
#include "core/run/active/hooks.h"
#include "core/run/options/flag_parser.h"
#include "core/run/rank/rank.h"

namespace lockstep {

class SignalWatch;

/// The framework of a lesson that trains nothing: flags, ranks, data, and the report at the end of
/// every run. Lesson (lesson.h) adds what a lesson needs that trains.
class BareLesson {
 public:
  BareLesson(LessonInfo info, int argc, char** argv);
  ~BareLesson();
  BareLesson(const BareLesson&) = delete;
  BareLesson& operator=(const BareLesson&) = delete;

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

  /// Iterates over the phase's steps. Each batch is the step's data for this rank, divided into the
  /// phase's microbatches. Peaks and byte counts are recorded per phase and compared with the
  /// prediction. If the parity check fails, it is repeated with gradients added in the prediction's
  /// order. Throws std::logic_error if a peak has neither a prediction nor a reason for lacking
  /// one.
  Batches batches(Rank& rank, const Phase& phase, const Predicted& predicted);
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
  std::unique_ptr<Corpus> corpus_;

 protected:
  std::unique_ptr<Options> options_;
  std::unique_ptr<ActiveRun> active_;
};

}  // namespace lockstep
