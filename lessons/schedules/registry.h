#pragma once

#include <algorithm>
#include <cctype>

#include "lessons/08_gpipe/gpipe.h"
#include "lessons/09_1f1b/one_f_one_b.h"
#include "lessons/10_interleaved/breadth_first.h"
#include "lessons/10_interleaved/interleaved.h"
#include "lessons/11_zero_bubble/automatic.h"
#include "lessons/11_zero_bubble/dualpipe_v.h"
#include "lessons/11_zero_bubble/zb_h1.h"
#include "lessons/11_zero_bubble/zb_h2.h"
#include "lessons/11_zero_bubble/zb_v.h"
#include "lessons/schedules/known_schedule.h"

namespace lockstep {

namespace known {

constexpr int any_chunks = 1'000'000;

/// A function of the size that always returns the same text.
inline auto always(std::string text) {
  return [text](const PipelineSize&) { return text; };
}
inline double forward_and_backward(const StageTimes& work) {
  return static_cast<double>(work.forward + work.backward);
}
inline bool equal_thirds(const StageTimes& work) {
  return work.forward == work.backward_input && work.forward == work.backward_weight;
}

/// GPipe and 1F1B: the pipeline fills and drains.
inline std::optional<double> fill_and_drain(const PipelineSize& size, const StageTimes& work) {
  return (size.ranks - 1) * forward_and_backward(work);
}

/// Loop placement: filling and draining takes 1/v of the time. With fewer microbatches than ranks,
/// every rank also waits until the first microbatch has been around all ranks.
inline std::optional<double> looped(const PipelineSize& size, const StageTimes& work) {
  const auto& [p, v, m] = size;
  return forward_and_backward(work) * (std::max(0, p - m) + (std::min(p, m) - 1.0) / v);
}
inline std::string looped_formula(const PipelineSize& size) {
  return size.microbatches >= size.ranks ? "(p-1)/(vm+p-1)" : "(v(p-m)+m-1)/(vp+m-1)";
}

/// The larger of the last rank's late start, the first rank's late end, and the idle time of the
/// paper, which is that of rank 0 in its own window. `spared` is the number of W's by which the
/// paper's idle time is shorter.
inline std::optional<double> zero_bubble(const PipelineSize& size, const StageTimes& work,
                                         int least_microbatches, int spared) {
  if (size.microbatches < least_microbatches) return {};
  const auto f = static_cast<double>(work.forward), i = static_cast<double>(work.backward_input),
             w = static_cast<double>(work.backward_weight);
  const double late_end = spared == 1 ? i : 0;
  return (size.ranks - 1) * std::max({f, late_end, f + i - spared * w}) / size.chunks;
}

inline Schedule search(const ScheduleRequest& request) {
  const auto& [p, v, m] = request.size;
  PipelineTimes times = request.times;
  if (times.stages.empty())
    times.stages.assign(static_cast<std::size_t>(p), {.forward = 1'000'000,
                                                      .backward = 2'000'000,
                                                      .backward_input = 1'000'000,
                                                      .backward_weight = 1'000'000});
  const int limit = request.memory_limit > 0 ? request.memory_limit : 2 * p - 1;
  return automatic_schedule({.microbatches = m, .limit = limit, .times = std::move(times)});
}

}  // namespace known

/// Returns all schedules that the lessons generate, in the order of the lessons.
inline const std::vector<KnownSchedule>& known_schedules() {
  using Size = PipelineSize;
  static const std::vector<KnownSchedule> all{
      {.word = "gpipe",
       .name = "GPipe",
       .page = "lessons/08_gpipe",
       .generate =
           [](const ScheduleRequest& r) { return gpipe(r.size.ranks, r.size.microbatches); },
       .formula = known::always("(p-1)/(m+p-1)"),
       .idle = known::fill_and_drain,
       .memory = "m",
       .live = [](const Size& size, int) { return size.microbatches; }},
      {.word = "1f1b",
       .name = "1F1B",
       .page = "lessons/09_1f1b",
       .generate =
           [](const ScheduleRequest& r) { return one_f_one_b(r.size.ranks, r.size.microbatches); },
       .formula = known::always("(p-1)/(m+p-1)"),
       .idle = known::fill_and_drain,
       .memory = "min(m, p - rank)",
       .live = [](const Size& size,
                  int rank) { return std::min(size.microbatches, size.ranks - rank); }},
      {.word = "breadth-first",
       .name = "looped breadth-first",
       .page = "lessons/10_interleaved",
       .least_chunks = 2,
       .most_chunks = known::any_chunks,
       .with_one_chunk = "gpipe",
       .generate =
           [](const ScheduleRequest& r) {
             return looped_breadth_first(r.size.ranks, r.size.chunks, r.size.microbatches);
           },
       .formula = known::looped_formula,
       .idle = known::looped,
       .memory = "v m",
       .live = [](const Size& size, int) { return size.chunks * size.microbatches; }},
      {.word = "interleaved",
       .name = "interleaved 1F1B",
       .page = "lessons/10_interleaved",
       .least_chunks = 2,
       .most_chunks = known::any_chunks,
       .with_one_chunk = "1f1b",
       .generate =
           [](const ScheduleRequest& r) {
             return interleaved_1f1b(r.size.ranks, r.size.chunks, r.size.microbatches);
           },
       .formula = known::looped_formula,
       .idle = known::looped,
       .memory = "min(v m, (v - 1) g + 2 (p - 1 - rank) + 1), g the size of the first group",
       .live =
           [](const Size& size, int rank) {
             const auto& [p, v, m] = size;
             const int group = microbatch_groups(p, m).front();
             return std::min(v * m, (v - 1) * group + 2 * (p - 1 - rank) + 1);
           }},
      {.word = "zb-h1",
       .name = "ZB-H1",
       .page = "lessons/11_zero_bubble",
       .most_chunks = known::any_chunks,
       .generate =
           [](const ScheduleRequest& r) {
             return zb_h1(r.size.ranks, r.size.chunks, r.size.microbatches);
           },
       .formula = known::always("i/(m(F+I+W)+i), i=(p-1)max(F,I,F+I-W)/v"),
       .idle = [](const Size& size,
                  const StageTimes& work) { return known::zero_bubble(size, work, size.ranks, 1); },
       .memory = "min(v m, (v - 1) g + p), g the size of the first group",
       .live =
           [](const Size& size, int) {
             const auto& [p, v, m] = size;
             return std::min(v * m, (v - 1) * microbatch_groups(p, m).front() + p);
           }},
      {.word = "zb-h2",
       .name = "ZB-H2",
       .page = "lessons/11_zero_bubble",
       .generate =
           [](const ScheduleRequest& r) { return zb_h2(r.size.ranks, r.size.microbatches); },
       .formula = known::always("i/(m(F+I+W)+i), i=(p-1)max(F,F+I-2W)"),
       .idle = [](const Size& size, const StageTimes& work) -> std::optional<double> {
         if (work.backward_input > work.forward) return {};  // then ranks also wait in between
         return known::zero_bubble(size, work, 2 * size.ranks - 1, 2);
       },
       .memory = "min(m, 2 p - 1)",
       .live = [](const Size& size,
                  int) { return std::min(size.microbatches, 2 * size.ranks - 1); }},
      {.word = "zb-v",
       .name = "ZB-V",
       .page = "lessons/11_zero_bubble",
       .placement = Placement::v,
       .least_chunks = 2,
       .most_chunks = 2,
       .with_one_chunk = "zb-h1",
       .generate = [](const ScheduleRequest& r) { return zb_v(r.size.ranks, r.size.microbatches); },
       .formula = known::always("(p-1)/(6m+p-1)"),
       .idle = [](const Size& size, const StageTimes& work) -> std::optional<double> {
         if (size.microbatches < 2 * size.ranks - 1 || !known::equal_thirds(work)) return {};
         return (size.ranks - 1) * static_cast<double>(work.forward) / 2;
       },
       .memory = "min(2 m, 2 p, m + 1 + rank)",
       .live =
           [](const Size& size, int rank) {
             const int m = size.microbatches;
             return std::min({2 * m, 2 * size.ranks, m + 1 + rank});
           }},
      {.word = "automatic",
       .name = "automatic",
       .page = "lessons/11_zero_bubble",
       .searched = true,
       .generate = known::search,
       .formula = known::always("none"),
       .idle = [](const Size&, const StageTimes&) { return std::optional<double>{}; },
       .memory = "--memory-limit, by default 2 p - 1",
       .live = [](const Size& size,
                  int) { return std::min(size.microbatches, 2 * size.ranks - 1); }},
      {.word = "dualpipe-v",
       .name = "DualPipeV",
       .page = "lessons/11_zero_bubble",
       .placement = Placement::v,
       .least_chunks = 2,
       .most_chunks = 2,
       .with_one_chunk = "zb-h2",
       .least_microbatches_per_rank = 2,
       .generate =
           [](const ScheduleRequest& r) { return dualpipe_v(r.size.ranks, r.size.microbatches); },
       .formula = known::always("(p-1)/(3m+p-1)"),
       // (p - 1)(F&B + B - 3 W) for chunks with F = I = W, F&B = F + B and B = I + W.
       .idle = [](const Size& size, const StageTimes& work) -> std::optional<double> {
         if (!known::equal_thirds(work)) return {};
         return (size.ranks - 1) * static_cast<double>(work.forward);
       },
       .memory = "2 p + 1",
       .live = [](const Size& size, int) { return 2 * size.ranks + 1; }},
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

}  // namespace lockstep
