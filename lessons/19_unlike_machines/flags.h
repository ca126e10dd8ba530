#pragma once

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <vector>

#include "core/base/error.h"
#include "core/run/lesson.h"
#include "lessons/02_data_parallel/replica_lesson.h"
#include "lessons/19_unlike_machines/search.h"

namespace lockstep {

/// The settings of the lesson: replicas and pipelines, on a cluster with two kinds of devices.
inline LessonInfo unlike_machines() {
  return {.name = "19 unlike machines",
          .question = "How should ranks that differ in speed and memory divide the work?",
          .ranks = 8,
          .batch = 32,
          .cluster = "mixed",
          .microbatches = {8},
          .why_no_time = "a fixed time would be the same on every device",
          .axes = {Axis::dp, Axis::pp},
          .sizes = {{Axis::pp, 4}},
          .tolerance = {.loss = 1e-5, .parameter = 1e-4}};
}

/// The lesson's flags, and the division of the work that they choose.
class DivisionFlags {
 public:
  /// Adds the flags to a lesson, which must outlive this object.
  explicit DivisionFlags(Lesson& lesson)
      : lesson_(lesson),
        search_(lesson.flag("--search", false,
                            "search for the placement, the split and the shares with the shortest "
                            "step on the cluster")),
        alone_(lesson.flag("--alone", false,
                           "at the end, search for the best division on each kind of device alone, "
                           "and on all ranks")),
        place_(lesson.flag("--place", std::vector<int>{},
                           "for each stage, the rank of each pipeline that holds it, such as "
                           "2,3,0,1 [0,1,2,...]")),
        shares_(lesson.flag("--shares", std::vector<int>{},
                            "microbatches of each replica, such as 11,5 [all --microbatches]")),
        bucket_(lesson.flag("--bucket", default_bucket, "minimum bytes of gradients in a bucket")) {
    lesson.hooks.divide_work = [this](const Plan& plan) { return divide(plan); };
  }
  DivisionFlags(const DivisionFlags&) = delete;
  DivisionFlags& operator=(const DivisionFlags&) = delete;

  /// Returns the techniques along dp and pp, once the lesson has parsed its flags.
  Composition chosen() const { return {.bucket_bytes = bucket_}; }
  /// Returns the even division of the mesh that the flags give, for comparison.
  const WorkDivision& even() const { return even_; }
  /// Whether to compare with each kind of device alone.
  bool alone() const { return alone_; }

 private:
  Plan divide(Plan plan) {
    check_bucket(bucket_);
    even_ = even_division(plan);
    if (alone_ && (!plan.modelled || plan.model().layers < 3))
      throw UsageError(
          "--alone: needs modelled times; use --clock modelled, and --layers 3 or "
          "more");
    if (search_) return searched(plan);
    if (!place_.empty()) {
      std::vector<int> sorted = place_;
      std::ranges::sort(sorted);
      if (sorted != plan.rank_of_stage)
        throw UsageError(fmt::format(
            "--place {}: must list each of the {} positions in a pipeline once, such as {}",
            fmt::join(place_, ","), plan.stages(), fmt::join(plan.rank_of_stage, ",")));
      plan.rank_of_stage = place_;
    }
    plan.batch.shares = shares_;
    return plan;
  }

  Plan searched(const Plan& plan) {
    const auto refuse = [](const std::string& flag, const auto& values) {
      throw UsageError(
          fmt::format("--search with {} {}: the search chooses it; leave one of them "
                      "out",
                      flag, fmt::join(values, ",")));
    };
    if (!place_.empty()) refuse("--place", place_);
    if (!shares_.empty()) refuse("--shares", shares_);
    if (!plan.split.empty()) refuse("--split", plan.split);
    if (!plan.modelled)
      throw UsageError(
          "--search on the wall clock: needs modelled times; use "
          "--clock modelled");
    if (plan.model().layers < 3)
      throw UsageError(fmt::format(
          "--search with --layers {}: there is nothing to divide; use --layers 3 or more",
          plan.model().layers));
    plan.validate();
    lesson_.hooks.chosen_by_time.push_back("--search");
    Plan searched = plan;
    searched.on_meta = lesson_.options().platform.on_meta();
    return divided(plan, DivisionSearch{searched, chosen()}.find().division);
  }

  Lesson& lesson_;
  const bool& search_;
  const bool& alone_;
  const std::vector<int>&place_, &shares_;
  const int& bucket_;
  WorkDivision even_;
};

}  // namespace lockstep
