#pragma once

#include <fmt/format.h>

#include <string>
#include <utility>
#include <vector>

#include "core/base/error.h"
#include "core/plan/divisions.h"
#include "core/run/lesson.h"
#include "lessons/02_data_parallel/replica_lesson.h"
#include "lessons/07_sequence_parallel/sequence_lesson.h"
#include "lessons/15_3d/stage_times.h"
#include "lessons/15_3d/three_d.h"
#include "lessons/schedules/schedule_flags.h"

namespace lockstep {

/// The settings of a lesson on a mesh of three axes. Two ranks along each axis are the default.
inline LessonInfo three_axes(const std::string& name, const std::string& question) {
  return {
      .name = name,
      .question = question,
      .ranks = 8,
      .microbatches = {4},
      .narrow = true,
      .why_no_time = "the time of a whole action does not determine when its layers communicate",
      .axes = {Axis::dp, Axis::pp, Axis::tp},
      .sizes = {{Axis::pp, 2}, {Axis::tp, 2}},
      .tolerance = {.loss = 1e-5, .parameter = 1e-4},
      .narrow_tolerance = {.loss = 1e-2, .parameter = 1e-1}};
}

/// Throws UsageError unless groups of --shard ranks can share the states of a stage.
inline void check_shard(const Mesh& mesh, const Composition& chosen) {
  const int line = mesh.size(Axis::dp_cp), shard = chosen.shard;
  if (shard == 0) return;
  if (chosen.zero == 0)
    throw UsageError(fmt::format(
        "--shard {} with --zero 0: plain data parallelism divides nothing; leave --shard out, or "
        "use --zero 1, 2 or 3",
        shard));
  const bool has_cp = mesh.size(Axis::cp) > 1;
  const std::string flags = fmt::format("--shard {} with --dp {}{}", shard, mesh.size(Axis::dp),
                                        has_cp ? fmt::format(" --cp {}", mesh.size(Axis::cp)) : "");
  if (line == 1)
    throw UsageError(flags +
                     ": one rank shares its states with no other; use --dp 2 or more, or "
                     "leave --shard out");
  const auto ways = [&] { return nearest_divisors("--shard", line, shard, 2); };
  if (shard == 1)
    throw UsageError(
        fmt::format("{}: a group has at least two ranks; use {}", flags, ways().back()));
  check_division({.flags = flags,
                  .whole = line,
                  .items = has_cp ? "ranks of dp and cp" : "ranks of dp",
                  .by = shard,
                  .into = fmt::format("equal groups of {}", shard)},
                 ways);
}

/// Throws UsageError for options that the lesson does not support.
inline void check_three_axes(const Options& options, const Composition& chosen) {
  check_bucket(chosen.bucket_bytes);
  if (chosen.zero > 3)
    throw UsageError(fmt::format(
        "--zero {}: ZeRO has stages 1 to 3, and 0 is plain data parallelism; use --zero 3",
        chosen.zero));
  check_shard(options.plan.mesh, chosen);
  if (chosen.sequence_parallel) check_sequence_shards(options.plan);
}

/// Throws UsageError for schedules with which the chosen stage of ZeRO does not run.
inline void check_zero_schedules(const Composition& chosen, const std::string& schedules) {
  const KnownSchedule* known = find_schedule(schedules);
  if (zero_runs_with(known != nullptr ? known->word : "", chosen.zero)) return;
  throw UsageError(fmt::format(
      "--zero {} with --schedule {}: ZeRO-2 and ZeRO-3 communicate for each microbatch, "
      "which this lesson predicts only for 1F1B; use --schedule 1f1b, or --zero 1",
      chosen.zero, schedules));
}

/// The flags of the techniques along dp.
class DataFlags {
 public:
  /// Adds the flags to a lesson.
  explicit DataFlags(Lesson& lesson)
      : zero_(lesson.flag("--zero", 0,
                          "the replicas divide the optimizer's states (1), also the gradients (2), "
                          "also the parameters (3), or nothing (0)")),
        shard_(lesson.flag("--shard", 0,
                           "with --zero: how many neighbouring replicas share one copy of the "
                           "states; the others replicate it (0: all share one copy)")),
        bucket_(lesson.flag("--bucket", default_bucket, "minimum bytes of gradients in a bucket")) {
  }

  /// Returns the values, once the lesson has parsed its flags.
  Composition with(bool sequence_parallel) const {
    return {.sequence_parallel = sequence_parallel,
            .zero = zero_,
            .shard = shard_,
            .bucket_bytes = bucket_};
  }

 private:
  const int &zero_, &shard_, &bucket_;
};

/// The lesson's own flags.
class Flags3D {
 public:
  /// Adds the flags and their checks to a lesson, which must outlive this object.
  explicit Flags3D(Lesson& lesson)
      : sequence_(lesson.flag("--sequence-parallel", false,
                              "tp ranks also divide the tokens between the products (lesson 7)")),
        data_(lesson),
        schedules_(lesson, "1f1b", [this](const Plan& plan, int microbatches) {
          return times_3d(plan, microbatches, chosen());
        }) {
    lesson.hooks.checks.emplace_back([this](const Options& options) {
      check_three_axes(options, chosen());
      check_zero_schedules(chosen(), schedules_.words());
    });
  }

  /// Returns the values, once the lesson has parsed its flags.
  Composition chosen() const { return data_.with(sequence_); }
  /// Returns the schedules along pp, each with its share of the run's steps.
  std::vector<std::pair<Schedule, Phase>> phases() const { return schedules_.phases(); }

 private:
  const bool& sequence_;
  DataFlags data_;
  ScheduleFlags schedules_;
};

}  // namespace lockstep
