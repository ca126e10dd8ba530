#pragma once

#include <fmt/format.h>

#include <string>
#include <utility>
#include <vector>

#include "core/base/error.h"
#include "core/run/lesson.h"
#include "lessons/15_3d/flags_3d.h"
#include "lessons/16_all_axes/axes_lesson.h"
#include "lessons/17_choosing/stage_times.h"
#include "lessons/schedules/schedule_flags.h"

namespace lockstep {

/// The settings of lesson 17: those of lesson 16, on the mesh of lesson 15.
inline LessonInfo choosing_lesson() {
  LessonInfo info = all_axes("17 choosing a configuration",
                             "Which layout should this model, this cluster and this batch have?");
  info.ranks = 8;
  info.sizes = {{Axis::pp, 2}, {Axis::tp, 2}};
  return info;
}

/// Throws UsageError for a schedule that experts do not support here. Any order of microbatches is
/// valid, but routings are recorded in the order of the backward passes, and are read as if this
/// were the order of the microbatches. (All schedules that the lessons generate run backward passes
/// in ascending order.)
inline void check_routed_order(const Schedule& schedule, const AllAxes& chosen) {
  if (!chosen.has_experts()) return;
  std::vector<int> latest(static_cast<std::size_t>(schedule.stages), -1);
  for (const std::vector<Action>& actions : schedule.actions)
    for (const Action& action : actions) {
      if (action.op != Op::backward && action.op != Op::backward_input) continue;
      int& before = latest[static_cast<std::size_t>(action.stage)];
      if (action.microbatch < before)
        throw UsageError(fmt::format(
            "--schedule {} with --experts {}: stage {} runs the backward pass of microbatch {} "
            "after that of {}, but routings are recorded in ascending order; use --experts 0, or "
            "a schedule that Lockstep generates",
            schedule.name, chosen.moe.experts, action.stage, action.microbatch, before));
      before = action.microbatch;
    }
}

/// A configuration: lesson 16's flags, and the schedules of lessons 8 to 11 along pp.
class ConfigurationFlags {
 public:
  /// Adds the flags and their checks to a lesson, which must outlive this object.
  explicit ConfigurationFlags(Lesson& lesson)
      : axes_(lesson, /*experts=*/0, Recompute::none),
        schedules_(lesson, "1f1b", [this, &lesson](const Plan& plan, int microbatches) {
          return times_of_stages(plan, microbatches, chosen(lesson.options()));
        }) {
    lesson.hooks.checks.emplace_back([this](const Options& options) {
      check_zero_schedules(chosen(options), schedules_.words());
    });
    schedules_.check([this, &lesson](const Schedule& schedule) {
      check_routed_order(schedule, chosen(lesson.options()));
    });
  }

  /// Returns the techniques, once the lesson has parsed its flags.
  AllAxes chosen(const Options& options) const { return axes_.chosen(options); }
  /// Returns the schedules along pp, each with its share of the run's steps.
  std::vector<std::pair<Schedule, Phase>> phases() const { return schedules_.phases(); }

 private:
  AllAxesFlags axes_;
  ScheduleFlags schedules_;
};

}  // namespace lockstep
