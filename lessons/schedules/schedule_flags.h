#pragma once

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "core/pipeline/csv.h"
#include "core/pipeline/pipeline_prediction.h"
#include "core/pipeline/validate.h"
#include "core/run/lesson.h"
#include "core/run/options/nearest.h"
#include "lessons/schedules/csv_file.h"
#include "lessons/schedules/registry.h"

namespace lockstep {

/// Computes the times of a pipeline's actions, for a step with m microbatches.
using TimesOfPlan = std::function<PipelineTimes(const Plan& plan, int microbatches)>;

/// Returns the request for a schedule of this size on the plan's ranks. A search minimizes the time
/// on the plan's cluster; on the wall clock, that of equal F, I and W.
inline ScheduleRequest request_for(const KnownSchedule& known, const Plan& plan,
                                   const PipelineSize& size, int memory_limit = 0,
                                   const TimesOfPlan& times = pipeline_times) {
  ScheduleRequest request{size};
  request.memory_limit = memory_limit;
  if (!known.searched || !plan.modelled) return request;
  Plan placed = plan;
  placed.rank_of_stage = placement_of(known, size);
  if (placed.split.size() != placed.rank_of_stage.size()) placed.split.clear();  // refused later
  request.times = times(placed, size.microbatches);
  return request;
}

/// The flags that choose a pipeline's schedules, and the schedules chosen. All schedules of one run
/// place their stages on the same ranks, since a stage's parameters stay where they are.
class ScheduleFlags {
 public:
  /// Adds the flags to a lesson, which must outlive this object. `schedules` is the default of
  /// --schedule. A search minimizes the step's duration for `times`.
  ScheduleFlags(Lesson& lesson, const std::string& schedules, TimesOfPlan times = pipeline_times)
      : lesson_(lesson),
        times_(std::move(times)),
        words_(lesson.flag("--schedule", schedules,
                           fmt::format("the schedules to follow, one after another: {}, or a CSV "
                                       "file in PyTorch's format",
                                       fmt::join(all_words(), ", ")))),
        chunks_(lesson.flag("--chunks", 0,
                            "chunks (stages) per rank; 0: as few as the schedules take")),
        memory_limit_(lesson.flag("--memory-limit", 0,
                                  "for automatic: the most microbatches that a rank may hold; 0: "
                                  "2p-1, as many as zb-h2")),
        export_to_(lesson.flag("--export-schedule", std::string{},
                               "write the last schedule to this CSV file, for PyTorch")) {
    lesson.hooks.place_stages = [this](const Options& options) { return place(options); };
  }
  /// Adds a check of each schedule, once it is read or generated. `check` throws UsageError for one
  /// that the lesson does not support.
  void check(std::function<void(const Schedule&)> check) { check_ = std::move(check); }
  ScheduleFlags(const ScheduleFlags&) = delete;
  ScheduleFlags& operator=(const ScheduleFlags&) = delete;

  /// Returns the schedules in the order of the flag, each with its share of the run's steps.
  std::vector<std::pair<Schedule, Phase>> phases() const {
    return lesson_.phases_for(schedules_, [](const Schedule& each) { return each.name; });
  }
  /// Returns the size of a pipeline that follows this schedule, with the chunks of --chunks.
  PipelineSize size_of(const KnownSchedule& known, const Plan& plan) const {
    return {plan.mesh.size(Axis::pp), chunks_ > 0 ? chunks_ : known.least_chunks,
            plan.batch.microbatches};
  }
  /// Generates this schedule in this size, within --memory-limit if it is searched for.
  Schedule generated(const KnownSchedule& known, const Plan& plan, const PipelineSize& size) const {
    return known.generate(request_for(known, plan, size, memory_limit_, times_));
  }
  /// Returns the value of --schedule, once the lesson has parsed its flags.
  const std::string& words() const { return words_; }

 private:
  static std::vector<std::string> all_words() {
    std::vector<std::string> words;
    for (const KnownSchedule& known : known_schedules()) words.emplace_back(known.word);
    return words;
  }

  /// Reads or generates the schedules, and returns their common placement. Throws UsageError if a
  /// schedule does not accept the run's size, or if two schedules differ in their placement.
  std::vector<int> place(const Options& options) {
    schedules_.clear();
    for (std::size_t at = 0; at <= words_.size();) {
      const std::size_t end = std::min(words_.find(',', at), words_.size());
      schedules_.push_back(named(words_.substr(at, end - at), options));
      at = end + 1;
    }
    for (const Schedule& each : schedules_)
      if (const std::string why = untimed_halves(options.plan, each); !why.empty())
        throw UsageError(why);
    if (check_) std::ranges::for_each(schedules_, check_);
    const Schedule& first = schedules_.front();
    for (const Schedule& each : schedules_)
      if (each.rank_of_stage != first.rank_of_stage)
        throw UsageError(fmt::format(
            "--schedule {}: {} and {} place their stages on different ranks; compare them in two "
            "runs",
            words_, first.name, each.name));
    if (memory_limit_ > 0 && !searches_)
      throw UsageError(fmt::format(
          "--memory-limit {}: only a search keeps it; use --schedule automatic", memory_limit_));
    if (!export_to_.empty()) write_schedule("--export-schedule", export_to_, schedules_.back());
    return first.rank_of_stage;
  }

  /// Returns the schedule that a word of --schedule names.
  Schedule named(const std::string& word, const Options& options) {
    const int microbatches = options.plan.batch.microbatches;
    if (word.ends_with(".csv")) {
      Schedule schedule =
          read_schedule("--schedule", word, options.plan.mesh.size(Axis::pp), microbatches);
      check_layers(options, schedule.stages, word);
      return schedule;
    }
    const KnownSchedule* known = find_schedule(word);
    if (known == nullptr)
      throw UsageError(fmt::format(
          "--schedule '{}': there is no schedule '{}'; {}use one or several of {}, or a file whose "
          "name ends with .csv",
          words_, word, did_you_mean(word, all_words()), fmt::join(all_words(), ", ")));
    const PipelineSize size = size_of(*known, options.plan);
    const std::string given = chunks_ > 0 ? fmt::format(" --chunks {}", chunks_) : "";
    if (const std::string why = refusal(*known, size); !why.empty())
      throw UsageError(fmt::format("--schedule {}{}: {}", known->word, given, why));
    check_layers(options, size.stages(), std::string{known->name});
    searches_ = searches_ || known->searched;
    if (known->searched) lesson_.hooks.chosen_by_time.push_back("--schedule " + word);
    Schedule schedule = generated(*known, options.plan, size);
    validate(schedule);
    return schedule;
  }

  static void check_layers(const Options& options, int stages, const std::string& name) {
    if (options.plan.model().layers >= stages) return;
    throw UsageError(fmt::format(
        "--layers {}: {} has {} stages on {} ranks, and each needs a layer; use "
        "--layers {}",
        options.plan.model().layers, name, stages, options.plan.mesh.size(Axis::pp), stages));
  }

  Lesson& lesson_;
  TimesOfPlan times_;
  const std::string& words_;
  const int& chunks_;
  const int& memory_limit_;
  const std::string& export_to_;
  std::function<void(const Schedule&)> check_;
  bool searches_ = false;
  std::vector<Schedule> schedules_;
};

}  // namespace lockstep
