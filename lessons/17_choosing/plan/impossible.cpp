#include "lessons/17_choosing/plan/impossible.h"

#include <fmt/format.h>

#include <algorithm>

#include "lessons/17_choosing/plan/words.h"

namespace lockstep {

namespace {

std::string named(const TrainingTask& task, const RankedPlan& plan) {
  return fmt::format("{} ({} per GPU, {} per step on {} GPUs)", plan.configuration.text(),
                     bytes_text(plan.figures.peak), time_text(plan.figures.step), task.ranks);
}

/// Nothing divides evenly: finds a batch, or sizes, that would.
std::string why_nothing_divides(const TrainingTask& task, const SearchSpace& space,
                                const std::string& why_refused) {
  std::string text = fmt::format(
      "--batch {} on {} GPUs: with the sizes given, no plan divides evenly; the replicas must "
      "divide the batch, and TP the attention heads{}",
      task.batch, task.ranks,
      why_refused.empty() ? "" : "; or lesson 17 refuses it: " + why_refused);
  for (int distance = 1; distance <= 256; ++distance)
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
  if (found.considered == 0) return why_nothing_divides(task, space, found.why_refused);
  const std::int64_t memory = *task.cluster.memory;
  std::string text = fmt::format(
      "nothing fits: of {} configurations on {} GPUs of {}, the smallest needs at least {} ({})",
      found.considered, task.ranks, bytes_text(memory), bytes_text(found.smallest_memory),
      found.smallest->text());
  const std::int64_t most =
      static_cast<std::int64_t>(task.cluster.nodes) * task.cluster.ranks_per_node;
  SearchSpace open = space;
  open.dp.reset();
  for (std::int64_t ranks = task.ranks; ranks < most;) {
    ranks = std::min(2 * ranks, most);
    TrainingTask larger = task;
    larger.ranks = static_cast<int>(ranks);
    const SearchResult more = search(larger, open, 3);
    if (!more.plans.empty())
      return fmt::format("{}; on {} GPUs, this fits: {}", text, ranks,
                         named(larger, more.plans.front()));
  }
  if (task.ranks < most)
    text += fmt::format("; nor does any plan found on up to {} GPUs, which the cluster has", most);
  if (space != SearchSpace{}) {
    const SearchResult free = search(task, {}, 3);
    if (!free.plans.empty())
      return fmt::format("{}; without the sizes given, this fits: {}", text,
                         named(task, free.plans.front()));
  }
  const Configuration& smallest = *found.smallest;
  const RankedPlan plan{smallest, step_figures(planned_run(task, smallest)), {}};
  return fmt::format("{}; with {} each, this would fit: {}", text, bytes_text(plan.figures.peak),
                     named(task, plan));
}

}  // namespace lockstep
