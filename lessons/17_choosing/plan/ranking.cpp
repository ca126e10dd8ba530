#include "lessons/17_choosing/plan/ranking.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>
#include <utility>

namespace lockstep {

namespace {

double milliseconds(Picoseconds time) {
  return static_cast<double>(time) / 1e9;
}

/// The parts of a step, by name.
std::map<std::string, Picoseconds> named_parts(const StepParts& parts) {
  std::map<std::string, Picoseconds> all{
      {"compute", parts.compute}, {"optimizer", parts.optimizer}, {"bubble", parts.bubble}};
  for (const auto& [axis, time] : parts.exposed) all[axis] += time;
  return all;
}

/// "dp" and "dp_cp", the replicas, under one name; "world" is dp if there is no other axis.
std::string axis_in_words(const std::string& axis, const Configuration& plan) {
  if (axis == "world")
    return plan.tp == plan.ranks() ? "tp" : plan.cp == plan.ranks() ? "cp" : "dp";
  return axis == "dp_cp" || axis == "edp" ? "dp" : axis;
}

}  // namespace

double model_flops_utilization(const TrainingTask& task, Picoseconds step) {
  const double flops = task.model.flops_per_token() * task.model.sequence * task.batch;
  return flops / task.ranks / (static_cast<double>(step) * 1e-12) / task.cluster.flops;
}

std::string ranking_table(const TrainingTask& task, const std::vector<RankedPlan>& plans) {
  const std::size_t count = plans.size();
  std::set<std::string> axes;
  for (std::size_t i = 0; i < count; ++i)
    for (const auto& [axis, time] : plans[i].figures.parts.exposed)
      axes.insert(axis_in_words(axis, plans[i].configuration));
  const bool experts = task.moe.experts > 0;
  std::string text = fmt::format(
      "{:>4} {:>10} {:>6} {:>8}  {:>3} {:>3} {:>4} {:>3}{} {:>4} {:>3} {:>4}  {:<15} {:<9} {:>9}",
      "", "step ms", "MFU", "GB/GPU", "TP", "PP", "DP", "CP", experts ? "  EP" : "", "ZeRO", "b",
      "m", "schedule", "recompute", "compute");
  for (const std::string& axis : axes) text += fmt::format(" {:>7}", axis);
  text += fmt::format(" {:>8} {:>9}\n", "bubble", "optimizer");
  for (std::size_t i = 0; i < count; ++i) {
    const auto& [c, figures, bounds] = plans[i];
    const KnownSchedule& known = *find_schedule(c.schedule);
    std::string schedule{c.pp > 1 ? known.word : "-"};
    if (c.pp > 1 && c.chunks > 1) schedule += fmt::format(" ×{}", c.chunks);
    std::map<std::string, Picoseconds> exposed;
    for (const auto& [axis, time] : figures.parts.exposed) exposed[axis_in_words(axis, c)] += time;
    text += fmt::format(
        "{:>3}. {:>10.1f} {:>5.1f}% {:>8.1f}  {:>3} {:>3} {:>4} {:>3}{} {:>4} {:>3} {:>4}  {:<15} "
        "{:<9} {:>9.1f}",
        i + 1, milliseconds(figures.step), 100 * model_flops_utilization(task, figures.step),
        static_cast<double>(figures.peak) / 1e9, c.tp, c.pp, c.dp, c.cp,
        experts ? fmt::format(" {:>3}", c.ep) : "", c.zero, c.microbatch,
        c.microbatches(task.batch), schedule, name_of(c.recompute),
        milliseconds(figures.parts.compute));
    for (const std::string& axis : axes)
      text += fmt::format(" {:>7.1f}", milliseconds(exposed[axis]));
    text += fmt::format(" {:>8.1f} {:>9.1f}\n", milliseconds(figures.parts.bubble),
                        milliseconds(figures.parts.optimizer));
  }
  return text;
}

std::string why_slower(const TrainingTask& task, const std::vector<RankedPlan>& plans,
                       std::size_t i) {
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
  std::string text = fmt::format("{}. is {:.1f} ms slower", i + 1, milliseconds(behind));
  if (most == 0) return text + ", spread over all parts";
  const bool communication = plan.figures.parts.exposed.contains(longest);
  text +=
      fmt::format(": {} takes {:.1f} ms more ({:.1f} instead of {:.1f})",
                  communication         ? "exposed " + axis_in_words(longest, plan.configuration)
                  : longest == "bubble" ? "its bubble"
                                        : longest,
                  milliseconds(most), milliseconds(mine.at(longest)), milliseconds(its[longest]));
  if (!communication) return text;
  const PlannedRun run = planned_run(task, plan.configuration);
  const RunOperations operations = record_step(run, folding_of(run));
  Scenario scenario{operations.modelled};
  scenario.change(longest + "=free", operations);
  const Replay replay{operations, scenario};
  const Picoseconds without = replay.step_time(replay.last_step());
  return text + fmt::format("; with that free, it would take {:.1f} ms, {} than 1. as it is",
                            milliseconds(without),
                            without < best.figures.step ? "less" : "still more");
}

std::string memory_text(const TrainingTask& task, const RankedPlan& plan) {
  std::string text = fmt::format(
      "{:.1f} GB on rank {}, the fullest:", static_cast<double>(plan.figures.peak) / 1e9,
      plan.figures.fullest);
  const char* comma = "";
  for (const MemoryCategory category : all_memory_categories) {
    text += fmt::format("{} {} {:.1f}", std::exchange(comma, ","), name_of(category),
                        static_cast<double>(plan.figures.memory.of(category)) / 1e9);
  }
  if (plan.figures.memory.total() != plan.figures.peak) text += " (not all at the same time)";
  if (task.cluster.memory)
    text += fmt::format("; the GPU has {:.0f}", static_cast<double>(*task.cluster.memory) / 1e9);
  return text;
}

}  // namespace lockstep
