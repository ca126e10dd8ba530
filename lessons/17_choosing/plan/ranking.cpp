#include "lessons/17_choosing/plan/ranking.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <set>
#include <utility>

#include "lessons/17_choosing/plan/words.h"

namespace lockstep {

namespace {

/// The parts of a step, by name.
std::map<std::string, Picoseconds> named_parts(const StepParts& parts) {
  std::map<std::string, Picoseconds> all{
      {"compute", parts.compute}, {"optimizer", parts.optimizer}, {"bubble", parts.bubble}};
  for (const auto& [axis, time] : parts.exposed) all[axis] += time;
  return all;
}

/// Returns the time by which collectives slow the kernels beside which they run, on the plan's
/// slowest rank: the difference from a replay with free communication.
Picoseconds slowed_by_collectives(const TrainingTask& task, const RankedPlan& plan) {
  const PlannedRun run = planned_run(task, plan.configuration);
  const RunOperations operations = record_step(run, folding_of(run));
  Scenario scenario{operations.modelled};
  for (const std::string& axis : axes_of(operations)) scenario.change(axis + "=free", operations);
  const Replay replay{operations, scenario};
  const int rank = operations.folding.representative(plan.figures.slowest);
  return plan.figures.parts.compute -
         parts_of(replay, rank, replay.last_step(), run.plan.mesh).compute;
}

}  // namespace

double model_flops_utilization(const TrainingTask& task, Picoseconds step) {
  const double flops = flops_per_token(task) * task.model.sequence * task.batch;
  return flops / task.ranks / (static_cast<double>(step) * 1e-12) / task.cluster.flops;
}

std::string ranking_table(const TrainingTask& task, const std::vector<RankedPlan>& plans) {
  std::set<std::string> axes;
  for (const auto& [c, figures, bounds] : plans)
    for (const auto& [axis, time] : figures.parts.exposed) axes.insert(axis);
  const bool experts = task.moe.experts > 0;
  const FigureUnit time_unit = unit_of_time(plans.front().figures.step),
                   memory_unit = unit_of_bytes(plans.front().figures.peak);
  std::string text = fmt::format(
      "     {:>8} {:>6} {:>6}   {:>2} {:>3} {:>4} {:>3}{} {:>4} {:>3} {:>4}  {:<15} {:<9} {:>8}",
      fmt::format("step {}", time_unit.name), "MFU", memory_unit.name, "TP", "PP", "DP", "CP",
      experts ? "  EP" : "", "ZeRO", "b", "m", "schedule", "recompute", "compute");
  for (const std::string& axis : axes) text += fmt::format(" {:>7}", axis);
  text += fmt::format(" {:>7} {:>9}\n", "bubble", "optimizer");
  for (std::size_t i = 0; i < plans.size(); ++i) {
    const auto& [c, figures, bounds] = plans[i];
    std::string schedule{c.pp > 1 ? find_schedule(c.schedule)->word : "-"};
    if (c.pp > 1 && c.chunks > 1) schedule += fmt::format(" ×{}", c.chunks);
    std::map<std::string, Picoseconds> exposed = figures.parts.exposed;
    const auto number = [&](Picoseconds time, int width) {
      return fmt::format(" {:>{}.3f}", static_cast<double>(time) / time_unit.size, width);
    };
    text += fmt::format(
        "{:>3}.{} {:>5.1f}% {:>6.1f}   {:>2} {:>3} {:>4} {:>3}{} {:>4} {:>3} {:>4}  "
        "{:<15} {:<9}{}",
        i + 1, number(figures.step, 9), 100 * model_flops_utilization(task, figures.step),
        static_cast<double>(figures.peak) / memory_unit.size, c.tp, c.pp, c.dp, c.cp,
        experts ? fmt::format(" {:>3}", c.ep) : "", c.zero, c.microbatch,
        c.microbatches(task.batch), schedule, name_of(c.recompute),
        number(figures.parts.compute, 8));
    for (const std::string& axis : axes) text += number(exposed[axis], 7);
    text += number(figures.parts.bubble, 7) + number(figures.parts.optimizer, 9) + '\n';
  }
  text +=
      "     b: sequences in a microbatch, m: microbatches; then where the slowest rank's step goes";
  if (!axes.empty()) text += fmt::format(" ({}: exposed communication)", fmt::join(axes, ", "));
  return text + '\n';
}

std::string why_slower(const TrainingTask& task, const std::vector<RankedPlan>& plans,
                       std::size_t i, bool replays) {
  const RankedPlan &best = plans.front(), &plan = plans[i];
  const auto mine = named_parts(plan.figures.parts);
  auto its = named_parts(best.figures.parts);
  std::string longest;
  Picoseconds most = 0;
  for (const auto& [part, time] : mine)
    if (time - its[part] > most) {
      most = time - its[part];
      longest = part;
    }
  const Picoseconds behind = plan.figures.step - best.figures.step;
  if (behind == 0) return fmt::format("Plan {} takes as long", i + 1);
  std::string text =
      fmt::format("Plan {} is {} slower", i + 1, time_text(behind, best.figures.step));
  const bool communication = plan.figures.parts.exposed.contains(longest);
  text += fmt::format(": {} takes {} more ({} instead of {})",
                      communication         ? "exposed " + longest
                      : longest == "bubble" ? "the bubble"
                                            : longest,
                      time_text(most, best.figures.step),
                      time_text(mine.at(longest), best.figures.step),
                      time_text(its[longest], best.figures.step));
  if (longest == "compute" && plan.configuration.recompute > best.configuration.recompute)
    text += plan.configuration.recompute == Recompute::full
                ? "; it computes the forward pass of its blocks twice"
                : "; it recomputes attention's probabilities";
  if (!replays) return text;
  if (longest == "compute" && task.cluster.shared &&
      task.cluster.shared->kernels_beside_collectives > 1)
    text += fmt::format("; collectives beside its kernels slow them by {} ({} in plan 1)",
                        time_text(slowed_by_collectives(task, plan), best.figures.step),
                        time_text(slowed_by_collectives(task, best), best.figures.step));
  if (!communication) return text;
  const PlannedRun run = planned_run(task, plan.configuration);
  const RunOperations operations = record_step(run, folding_of(run));
  Scenario scenario{operations.modelled};
  const auto& groups = plan.figures.parts.groups.at(longest);
  for (const auto& [axis, others] : plan.figures.parts.groups)  // a group that two axes share
    for (const std::string& group : groups)
      if (axis != longest && others.contains(group)) return text;
  for (const std::string& group : groups) scenario.change(group + "=free", operations);
  const Replay replay{operations, scenario};
  const Picoseconds without = replay.step_time(replay.last_step());
  return text + fmt::format("; if it were free, the step would take {}, {} than that of plan 1",
                            time_text(without, best.figures.step),
                            without < best.figures.step ? "less" : "still more");
}

std::string memory_text(const TrainingTask& task, const RankedPlan& plan) {
  std::string text = fmt::format("{} on rank {}, the fullest:", bytes_text(plan.figures.peak),
                                 plan.figures.fullest);
  const char* comma = "";
  for (const MemoryCategory category : all_memory_categories)
    text += fmt::format("{} {} {}", std::exchange(comma, ","), name_of(category),
                        bytes_text(plan.figures.memory.of(category)));
  if (plan.figures.memory.total() != plan.figures.peak) text += " (not all at the same time)";
  if (task.cluster.memory) text += fmt::format("; a GPU has {}", bytes_text(*task.cluster.memory));
  return text;
}

}  // namespace lockstep
