#pragma once

#include <fmt/format.h>

#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/pipeline/simulator.h"

namespace lockstep {

/// The size of a pipeline: p ranks with v chunks (stages) each, and m microbatches per step.
struct PipelineSize {
  int ranks = 1;
  int chunks = 1;
  int microbatches = 1;
  int stages() const { return ranks * chunks; }
};

/// The inputs of a generator. Only a search needs more than the size.
struct ScheduleRequest {
  ScheduleRequest(const PipelineSize& size_) : size(size_) {}

  PipelineSize size;
  int memory_limit = 0;  ///< live microbatches per rank; 0: as many as ZB-H2 holds, 2 p - 1
  /// The times that a search minimizes; without stages, those of equal F, I and W, and free
  /// messages.
  PipelineTimes times{};
};

/// How a schedule places its stages: around the ranks (one stage per rank, if v = 1), or down and
/// up again.
enum class Placement { loop, v };

/// A schedule that the lessons generate, and what is known about it. Idle times and memory hold for
/// any size that the schedule accepts; tests compare them with the simulator and the allocator.
struct KnownSchedule {
  std::string_view word;  ///< its name after --schedule
  std::string_view name;  ///< Schedule::name
  std::string_view page;  ///< the folder of the lesson that explains it
  Placement placement = Placement::loop;
  int least_chunks = 1;
  int most_chunks = 1;
  /// The schedule to use instead if a rank has only one chunk; empty for schedules that accept one.
  std::string_view with_one_chunk{};
  int least_microbatches_per_rank = 0;  ///< m is at least p times this number, and at least 1
  /// Whether the schedule is searched for given times and within a memory limit. `live` is then an
  /// upper bound.
  bool searched = false;
  std::function<Schedule(const ScheduleRequest&)> generate;

  /// The bubble's formula, as a share of the step.
  std::function<std::string(const PipelineSize&)> formula;
  /// Each rank's idle time from the step's first action to its last, for equal stages and free
  /// messages; empty if there is no closed form for this size and these times. `work` is the time
  /// of all of a rank's chunks for one microbatch.
  std::function<std::optional<double>(const PipelineSize&, const StageTimes& work)> idle;
  /// The peak number of live microbatches on a rank, as a formula and as a number, which adds up
  /// all chunks of the rank. (A chunk's activations are 1/v of those of a stage in 1F1B.)
  std::string_view memory;
  std::function<int(const PipelineSize&, int rank)> live;
};

/// Returns the bubble as a share of the step, for equal stages and free messages; empty if there is
/// no closed form. `work` is the time of all of a rank's chunks for one microbatch.
inline std::optional<double> bubble_of(const KnownSchedule& known, const PipelineSize& size,
                                       const StageTimes& work) {
  const std::optional<double> idle = known.idle(size, work);
  if (!idle) return {};
  return *idle / (*idle + size.microbatches * static_cast<double>(work.forward + work.backward));
}

/// Returns the placement of a pipeline of this size.
inline std::vector<int> placement_of(const KnownSchedule& known, const PipelineSize& size) {
  return known.placement == Placement::v ? v_placement(size.ranks)
                                         : loop_placement(size.ranks, size.stages());
}

/// Returns the reason why the schedule does not support this size, and an alternative; empty if it
/// supports the size.
inline std::string refusal(const KnownSchedule& known, const PipelineSize& size) {
  const auto chunks = [](int n) { return fmt::format("{} chunk{}", n, n == 1 ? "" : "s"); };
  if (size.chunks < known.least_chunks && !known.with_one_chunk.empty())
    return fmt::format("{} has at least {} per rank; use --chunks {}, or --schedule {}", known.name,
                       chunks(known.least_chunks), known.least_chunks, known.with_one_chunk);
  if (size.chunks < known.least_chunks || size.chunks > known.most_chunks)
    return fmt::format("{} has {} per rank; use --chunks {}{}", known.name,
                       chunks(known.least_chunks), known.least_chunks,
                       known.most_chunks == 1 ? ", or --schedule interleaved" : "");
  if (const int least = known.least_microbatches_per_rank * size.ranks; size.microbatches < least)
    return fmt::format("{} needs at least {} microbatches on {} ranks; use --microbatches {}",
                       known.name, least, size.ranks, least);
  return {};
}

}  // namespace lockstep
