#include "lessons/17_choosing/plan/impossible.h"

#include <fmt/format.h>

#include "lessons/17_choosing/plan/words.h"

namespace lockstep {

namespace {

std::string named(const TrainingTask& task, const RankedPlan& plan) {
  return fmt::format("{} ({} per GPU, {} per step on {} GPUs)", plan.configuration.text(),
                     bytes_text(plan.figures.peak), time_text(plan.figures.step), task.ranks);
}

/// Nothing divides: which batch would do?
std::string why_nothing_divides(const TrainingTask& task, const SearchSpace& space) {
  std::string text = fmt::format(
      "--batch {} on {} GPUs: no plan divides it; with the sizes given, replicas, their "
      "microbatches "
      "and tensor-parallel heads must divide evenly",
      task.batch, task.ranks);
  for (int distance = 1; distance <= 4096; ++distance)
    for (const int batch : {task.batch + distance, task.batch - distance}) {
      if (batch < 1) continue;
      TrainingTask other = task;
      other.batch = batch;
      if (configurations(other, space).empty()) continue;
      const SearchResult found = search(other, space, 3);
      if (!found.plans.empty())
        return fmt::format("{}; --batch {} works: {}", text, batch,
                           named(other, found.plans.front()));
    }
  const SearchResult free = search(task, {}, 3);
  if (!free.plans.empty())
    return fmt::format("{}; without these sizes, this works: {}", text,
                       named(task, free.plans.front()));
  return text;
}

}  // namespace

std::string why_impossible(const TrainingTask& task, const SearchSpace& space,
                           const SearchResult& found) {
  if (found.considered == 0) return why_nothing_divides(task, space);
  const std::int64_t memory = *task.cluster.memory;
  std::int64_t least = found.smallest_memory;
  Configuration smallest = *found.smallest;
  for (const RankedPlan& plan : found.too_large)
    if (plan.figures.peak < least || least <= memory) {
      least = plan.figures.peak;
      smallest = plan.configuration;
    }
  std::string text = fmt::format(
      "nothing fits: of {} configurations on {} GPUs of {}, the smallest needs at least {} "
      "({})",
      found.considered, task.ranks, bytes_text(memory), bytes_text(least), smallest.text());
  const std::int64_t most =
      static_cast<std::int64_t>(task.cluster.nodes) * task.cluster.ranks_per_node;
  for (std::int64_t ranks = 2L * task.ranks; ranks <= most; ranks *= 2) {
    TrainingTask larger = task;
    larger.ranks = static_cast<int>(ranks);
    SearchSpace open = space;
    open.dp.reset();
    const SearchResult more = search(larger, open, 3);
    if (!more.plans.empty())
      return fmt::format("{}; on {} GPUs, this fits: {}", text, ranks,
                         named(larger, more.plans.front()));
  }
  if (space != SearchSpace{}) {
    const SearchResult free = search(task, {}, 3);
    if (!free.plans.empty())
      return fmt::format("{}; without the sizes given, this fits: {}", text,
                         named(task, free.plans.front()));
  }
  const RankedPlan plan{smallest, step_figures(planned_run(task, smallest)), {}};
  return fmt::format("{}; the cluster has no more GPUs; with {} each, this would fit: {}", text,
                     bytes_text(plan.figures.peak), named(task, plan));
}

}  // namespace lockstep
