#pragma once

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "core/model/adamw.h"
#include "core/model/data.h"
#include "core/model/gpt.h"
#include "core/plan/prediction.h"
#include "core/run/options/options.h"
#include "core/run/rank.h"
#include "core/run/report/sum_order.h"

namespace lockstep {

class Lesson;
class SignalWatch;

/// The steps of a phase, as a range of batches: each begins a step, the end closes the phase.
class Batches {
 public:
  class Iterator {
   public:
    Iterator(Batches* batches, int step) : batches_(batches), step_(step) {}
    const Batch& operator*() const { return batches_->batch_; }
    Iterator& operator++();
    bool operator==(const Iterator& other) const { return step_ == other.step_; }

   private:
    Batches* batches_;
    int step_;
  };

  Batches(Lesson& lesson, Rank& rank, Phase phase)
      : lesson_(lesson), rank_(rank), phase_(std::move(phase)) {}
  Iterator begin();
  Iterator end() { return {this, phase_.first_step + phase_.steps}; }

 private:
  void load(int step);

  Lesson& lesson_;
  Rank& rank_;
  Phase phase_;
  Batch batch_;
};

/// A lesson's frame: flags, ranks, data, and what all lessons show at the end (timeline, predicted
/// against observed, parity, what the model says now).
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

  /// A flag of the lesson's own. The reference is good for the lesson's life and has its value once
  /// run() has begun.
  template <class T>
  const T& flag(const std::string& name, T otherwise, const std::string& help) {
    auto value = std::make_shared<T>(std::move(otherwise));
    flags_.add(name, *value, help);
    kept_.push_back(value);
    return *value;
  }

  /// The same, of one of several words.
  const std::string& flag(const std::string& name, std::string otherwise,
                          const std::vector<std::string>& words, const std::string& help) {
    auto value = std::make_shared<std::string>(std::move(otherwise));
    flags_.add(name, *value, words, help);
    kept_.push_back(value);
    return *value;
  }

  /// What the lesson asks of its flags beyond what all lessons do: throws UsageError.
  void check(std::function<void(const Options&)> check) { check_ = std::move(check); }

  /// Sets the builder of a model other than plain GPT-2. It is called after the flags are parsed;
  /// the ranks, the reference on one device and sampling use its result.
  void build(std::function<std::shared_ptr<const ModelBuilder>(const Options&)> builder) {
    builder_ = std::move(builder);
  }

  /// Parses the flags, starts the ranks, calls `body` on each, and reports. Returns the process's
  /// exit code: 0 all is well, 1 the run failed, 2 it was asked for something impossible.
  int run(const std::function<void(Rank&)>& body);

  // For the body.

  const Options& options() const { return *options_; }
  const GptConfig& model() const { return options_->model; }
  const AdamWOptions& optimizer() const { return options_->optimizer; }
  std::uint64_t seed() const { return options_->seed; }

  /// The run's steps, divided among the values of --microbatches.
  std::vector<Phase> phases() const;
  /// The steps of one value of m, those before `split` under one name and the others under another.
  std::vector<Phase> phases(const std::string& before, const std::string& after, int split) const;

  /// The run's steps, divided among `values` of something that is tried one after another: each
  /// with the phase in which it has its turn, called `name(value)`. With fewer steps than values
  /// the first ones have none.
  template <class T, class Name>
  std::vector<std::pair<T, Phase>> turns(const std::vector<T>& values, const Name& name) const {
    std::vector<std::pair<T, Phase>> turns;
    for (std::size_t i = 0; i < values.size(); ++i)
      if (Phase phase = turn(i, values.size()); phase.steps > 0) {
        phase.name = name(values[i]);
        turns.emplace_back(values[i], std::move(phase));
      }
    return turns;
  }

  /// The order in which replicas' gradients are added in the phases that follow, unless that is one
  /// replica after another: it tells rounding from a mistake if a run differs from one device.
  /// `order` is called at once, only on rank 0 and only if parity is checked.
  void sums_in(Rank& rank, const std::function<SumOrder()>& order);

  /// Iterates over the phase's steps; each batch is the step's data for this rank, cut into the
  /// phase's microbatches. Peaks and byte counts are taken per phase and compared with what is
  /// predicted. Throws std::logic_error if a peak has neither a figure nor a reason for having
  /// none.
  Batches batches(Rank& rank, const Phase& phase, Predicted predicted);
  /// Notes the step's loss, from ranks that know it: nothing from others. A replica of several
  /// gives its share; the shares add up to the batch's mean.
  void record(Rank& rank, std::optional<double> loss);
  /// To be called once by every rank before it trains. With --load, replaces the values of
  /// `parameters`, or parts of them, by the checkpoint's, and what the optimizer knows, if the
  /// checkpoint has that: training goes on where it ended, on however many ranks.
  void load(Rank& rank, const std::vector<Parameter*>& parameters, AdamW& optimizer);
  /// To be called once by every rank, with the parameters that it has trained, or the parts of
  /// them: takes them for the comparison with one device, and with the optimizer's moments for
  /// --save.
  void finish(Rank& rank, const std::vector<Parameter*>& parameters, const AdamW& optimizer);
  /// Adds JSON of the lesson's own to --report, as results.`name`. Only rank 0's is kept.
  void add_to_report(const Rank& rank, const std::string& name, const std::string& json);

 private:
  friend class Batches;
  struct Running;

  Phase turn(std::size_t i, std::size_t count) const;
  int run_checked(const std::function<void(Rank&)>& body, SignalWatch& watch);
  int run_launcher(SignalWatch& watch);
  int run_threads(const std::function<void(Rank&)>& body, SignalWatch& watch);
  int run_process(const std::function<void(Rank&)>& body, SignalWatch& watch);
  void train(Rank& rank, const std::function<void(Rank&)>& body);
  void begin_step(Rank& rank, int step);
  void end_step(Rank& rank, int step);
  void end_phase(Rank& rank);
  void introduce(const GpuPlan& plan, const std::string& hosts = {}) const;
  int tell();

  LessonInfo info_;
  int argc_;
  char** argv_;
  FlagParser flags_;
  std::function<void(const Options&)> check_;
  std::function<std::shared_ptr<const ModelBuilder>(const Options&)> builder_;
  std::vector<std::shared_ptr<void>> kept_;
  std::unique_ptr<Options> options_;
  std::unique_ptr<Corpus> corpus_;
  std::unique_ptr<Running> running_;
};

}  // namespace lockstep
