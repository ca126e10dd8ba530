#pragma once

#include <fmt/format.h>

#include <string>
#include <utility>
#include <vector>

#include "core/pipeline/pipeline_prediction.h"
#include "core/pipeline/validate.h"
#include "core/run/lesson.h"
#include "lessons/schedules/registry.h"

namespace lockstep {

/// Returns the mean time of a rank's chunks for one microbatch on the modelled clock. On the wall
/// clock, returns equal times of F, I and W.
inline StageTimes work_of_rank(const Plan& plan, int microbatches) {
  if (!plan.modelled)
    return {.forward = 1, .backward = 2, .backward_input = 1, .backward_weight = 1};
  StageTimes work;
  const int ranks = plan.mesh.size(Axis::pp);
  for (const StageTimes& stage : pipeline_times(plan, microbatches).stages) {
    work.forward += stage.forward / ranks;
    work.backward += stage.backward / ranks;
    work.backward_input += stage.backward_input / ranks;
    work.backward_weight += stage.backward_weight / ranks;
  }
  return work;
}

/// Predicts one step of one rank: predict_pipeline() and, for a schedule that the lessons generate,
/// the closed form of its bubble.
inline Predicted predict_schedule(const Plan& plan, const Place& place, const Schedule& schedule) {
  Predicted predicted = predict_pipeline(plan, place, schedule);
  if (const KnownSchedule* known = find_schedule(schedule.name)) {
    const PipelineSize size{schedule.ranks, schedule.stages / schedule.ranks,
                            schedule.microbatches};
    predicted.bubble = bubble_of(*known, size, work_of_rank(plan, size.microbatches));
    predicted.formula = known->formula(size);
  }
  return predicted;
}

/// The flags that choose a pipeline's schedules, and the schedules chosen. All schedules of one run
/// place their stages on the same ranks, since a stage's parameters stay where they are.
class ScheduleFlags {
 public:
  /// Adds the flags to a lesson, which must outlive this object. `schedules` is the default of
  /// --schedule.
  ScheduleFlags(Lesson& lesson, const std::string& schedules)
      : lesson_(lesson),
        words_(lesson.flag("--schedule", schedules,
                           "the schedules to follow, one after another: " + all_words())),
        chunks_(lesson.flag("--chunks", 0,
                            "chunks (stages) per rank; 0: as few as the schedules take")) {
    lesson.place_stages([this](const Options& options) { return place(options); });
  }
  ScheduleFlags(const ScheduleFlags&) = delete;
  ScheduleFlags& operator=(const ScheduleFlags&) = delete;

  /// Returns the schedules in the order of the flag, each with its share of the run's steps.
  std::vector<std::pair<Schedule, Phase>> phases() const {
    return lesson_.phases_for(schedules_, [](const Schedule& each) { return each.name; });
  }

 private:
  static std::string all_words() {
    std::string words;
    for (const KnownSchedule& known : known_schedules())
      words += fmt::format("{}{}", words.empty() ? "" : ", ", known.word);
    return words;
  }

  /// Returns the known schedules that --schedule lists. Throws UsageError for an unknown word.
  std::vector<const KnownSchedule*> listed() const {
    std::vector<const KnownSchedule*> listed;
    for (std::size_t at = 0; at <= words_.size();) {
      const std::size_t end = std::min(words_.find(',', at), words_.size());
      const std::string word = words_.substr(at, end - at);
      listed.push_back(find_schedule(word));
      if (listed.back() == nullptr)
        throw UsageError(
            fmt::format("--schedule '{}': there is no schedule '{}'; use one or several of {}",
                        words_, word, all_words()));
      at = end + 1;
    }
    return listed;
  }

  /// Generates the schedules and returns their common placement. Throws UsageError if a schedule
  /// does not accept the run's size, or if two schedules differ in their placement.
  std::vector<int> place(const Options& options) {
    const std::vector<const KnownSchedule*> known = listed();
    const int chunks = chunks_ > 0 ? chunks_ : known.front()->least_chunks;
    const PipelineSize size{options.run.pp, chunks, options.run.microbatches.front()};
    schedules_.clear();
    for (const KnownSchedule* each : known) {
      const std::string given = chunks_ > 0 ? fmt::format(" --chunks {}", chunks_) : "";
      if (placement_of(*each, size) != placement_of(*known.front(), size) ||
          (chunks_ == 0 && each->least_chunks != chunks))
        throw UsageError(fmt::format(
            "--schedule {}: {} and {} place their stages on different ranks; compare them in two "
            "runs",
            words_, known.front()->name, each->name));
      if (const std::string why = refusal(*each, size); !why.empty())
        throw UsageError(fmt::format("--schedule {}{}: {}", each->word, given, why));
      if (options.run.model.layers < size.stages())
        throw UsageError(fmt::format(
            "--layers {}: {} ranks with {} chunks each need a layer for each of their {} stages; "
            "use --layers {}",
            options.run.model.layers, size.ranks, chunks, size.stages(), size.stages()));
      schedules_.push_back(each->generate(size));
      validate(schedules_.back());
    }
    return schedules_.front().rank_of_stage;
  }

  Lesson& lesson_;
  const std::string& words_;
  const int& chunks_;
  std::vector<Schedule> schedules_;
};

}  // namespace lockstep
