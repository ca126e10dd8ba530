#pragma once

#include <fmt/format.h>

#include <string>

#include "core/base/error.h"
#include "core/run/lesson.h"

namespace lockstep {

/// The reason why a lesson that communicates during backward does not take --time.
constexpr const char* no_time_of_layers =
    "the time of a whole backward does not determine when each layer's gradients are ready";

/// The settings of a lesson in which every rank is a replica with its own share of the batch. The
/// batch has 24 sequences, which can be divided evenly among 1, 2, 3, 4 and 8 ranks.
inline LessonInfo replica_lesson(const std::string& name, const std::string& question) {
  return {.name = name,
          .question = question,
          .batch = 24,
          .cluster = "ethernet",
          .microbatches = {1},
          .freezes = true,
          .narrow = true,
          .clips = false,
          .why_no_time = no_time_of_layers,
          .axes = {Axis::dp},
          .tolerance = {.loss = 1e-6, .parameter = 1e-5},
          .narrow_tolerance = {.loss = 1e-2, .parameter = 1e-1}};
}

/// The default of --bucket, in bytes.
constexpr int default_bucket = 50'000;

/// Throws UsageError unless --bucket is a size.
inline void check_bucket(std::int64_t bytes) {
  if (bytes < 1)
    throw UsageError(
        fmt::format("--bucket {}: a bucket has at least one layer's gradients; give at least "
                    "1 byte, such as --bucket 200000",
                    bytes));
}

/// Throws UsageError for options that neither data parallelism nor ZeRO supports.
inline void check_replicas(const Options& options, int bucket_bytes) {
  check_bucket(bucket_bytes);
  if (options.plan.model().trained_count() < options.plan.mesh.size(Axis::dp))
    throw UsageError(
        fmt::format("--ranks {}: the model has {} parameters to train, fewer than one for each "
                    "rank; use at most {} ranks",
                    options.plan.mesh.ranks(), options.plan.model().trained_count(),
                    options.plan.model().trained_count()));
}

/// Adds --bucket, the minimum size of a bucket of `contents`, and the checks of a replica lesson's
/// flags. The reference is valid for the lesson's lifetime.
inline const int& bucket_flag(Lesson& lesson, int otherwise = default_bucket,
                              std::string_view contents = "gradients") {
  const int& bucket =
      lesson.flag("--bucket", otherwise, fmt::format("minimum bytes of {} in a bucket", contents));
  lesson.hooks.checks.emplace_back(
      [&bucket](const Options& options) { check_replicas(options, bucket); });
  return bucket;
}

}  // namespace lockstep
