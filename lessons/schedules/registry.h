#pragma once

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/error.h"
#include "core/pipeline/simulator.h"
#include "lessons/08_gpipe/gpipe.h"
#include "lessons/09_1f1b/one_f_one_b.h"
#include "lessons/10_interleaved/breadth_first.h"
#include "lessons/10_interleaved/interleaved.h"

namespace lockstep {

/// The size of a pipeline: p ranks with v chunks (stages) each, and m microbatches per step.
struct PipelineSize {
  int ranks = 1;
  int chunks = 1;
  int microbatches = 1;
  int stages() const { return ranks * chunks; }
};

/// How a schedule places its stages: one on each rank, around the ranks, or down and up again.
enum class Placement { linear, loop, v };

/// A schedule that the lessons generate, and what is known about it. Idle times and memory hold for
/// any size that the schedule accepts; tests compare them with the simulator and the allocator.
struct KnownSchedule {
  std::string_view word;  ///< its name after --schedule
  std::string_view name;  ///< Schedule::name
  std::string_view page;  ///< the folder of the lesson that explains it
  Placement placement = Placement::linear;
  int least_chunks = 1;
  int most_chunks = 1;
  /// What to use instead if a rank has only one chunk; empty for schedules that accept one.
  std::string_view with_one_chunk{};
  std::function<Schedule(const PipelineSize&)> generate;

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

/// Returns all schedules that the lessons generate, in the order of the lessons.
inline const std::vector<KnownSchedule>& known_schedules() {
  constexpr int any = 1'000'000;
  const auto whole = [](const StageTimes& work) {
    return static_cast<double>(work.forward + work.backward);
  };
  const auto fill_and_drain = [](const PipelineSize&) { return std::string{"(p-1)/(m+p-1)"}; };
  const auto p_minus_1 = [whole](const PipelineSize& size, const StageTimes& work) {
    return (size.ranks - 1) * whole(work);
  };
  // With fewer microbatches than ranks, each chunk also waits until the first microbatch has been
  // around all ranks.
  const auto looped = [](const PipelineSize& size) {
    return std::string{size.microbatches >= size.ranks ? "(p-1)/(vm+p-1)"
                                                       : "(v(p-m)+m-1)/(vp+m-1)"};
  };
  const auto looped_idle = [whole](const PipelineSize& size, const StageTimes& work) {
    const auto& [p, v, m] = size;
    return whole(work) * (std::max(0, p - m) + (std::min(p, m) - 1.0) / v);
  };

  static const std::vector<KnownSchedule> all{
      {.word = "gpipe",
       .name = "GPipe",
       .page = "lessons/08_gpipe",
       .generate = [](const PipelineSize& size) { return gpipe(size.ranks, size.microbatches); },
       .formula = fill_and_drain,
       .idle = p_minus_1,
       .memory = "m",
       .live = [](const PipelineSize& size, int) { return size.microbatches; }},
      {.word = "1f1b",
       .name = "1F1B",
       .page = "lessons/09_1f1b",
       .generate =
           [](const PipelineSize& size) { return one_f_one_b(size.ranks, size.microbatches); },
       .formula = fill_and_drain,
       .idle = p_minus_1,
       .memory = "min(m, p - rank)",
       .live = [](const PipelineSize& size,
                  int rank) { return std::min(size.microbatches, size.ranks - rank); }},
      {.word = "breadth-first",
       .name = "looped breadth-first",
       .page = "lessons/10_interleaved",
       .placement = Placement::loop,
       .least_chunks = 2,
       .most_chunks = any,
       .with_one_chunk = "gpipe",
       .generate =
           [](const PipelineSize& size) {
             return looped_breadth_first(size.ranks, size.chunks, size.microbatches);
           },
       .formula = looped,
       .idle = looped_idle,
       .memory = "v m",
       .live = [](const PipelineSize& size, int) { return size.chunks * size.microbatches; }},
      {.word = "interleaved",
       .name = "interleaved 1F1B",
       .page = "lessons/10_interleaved",
       .placement = Placement::loop,
       .least_chunks = 2,
       .most_chunks = any,
       .with_one_chunk = "1f1b",
       .generate =
           [](const PipelineSize& size) {
             return interleaved_1f1b(size.ranks, size.chunks, size.microbatches);
           },
       .formula = looped,
       .idle = looped_idle,
       .memory = "min(v m, (v - 1) g + 2 (p - 1 - rank) + 1), g the size of the first group",
       .live =
           [](const PipelineSize& size, int rank) {
             const auto& [p, v, m] = size;
             const int group = microbatch_groups(p, m).front();
             return std::min(v * m, (v - 1) * group + 2 * (p - 1 - rank) + 1);
           }},
  };
  return all;
}

/// Returns the schedule that has exactly this name or, ignoring case, this word; null if there is
/// none.
inline const KnownSchedule* find_schedule(std::string_view name) {
  const auto lower = [](unsigned char c) { return static_cast<char>(std::tolower(c)); };
  std::string word{name};
  std::ranges::transform(word, word.begin(), lower);
  for (const KnownSchedule& known : known_schedules())
    if (known.name == name || known.word == word) return &known;
  return nullptr;
}

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

/// Returns why the schedule cannot have this size, and what would do; empty if it can.
inline std::string refusal(const KnownSchedule& known, const PipelineSize& size) {
  const auto chunks = [](int n) { return fmt::format("{} chunk{}", n, n == 1 ? "" : "s"); };
  if (size.chunks < known.least_chunks && !known.with_one_chunk.empty())
    return fmt::format("{} has at least {} per rank; use --chunks {}, or --schedule {}", known.name,
                       chunks(known.least_chunks), known.least_chunks, known.with_one_chunk);
  if (size.chunks < known.least_chunks || size.chunks > known.most_chunks)
    return fmt::format("{} has {} per rank; use --chunks {}{}", known.name,
                       chunks(known.least_chunks), known.least_chunks,
                       known.most_chunks == 1 ? ", or --schedule interleaved" : "");
  return {};
}

}  // namespace lockstep
