#include "lessons/17_choosing/plan/report.h"

#include <fmt/format.h>

#include <fstream>
#include <nlohmann/json.hpp>

#include "core/base/error.h"
#include "lessons/17_choosing/plan/ranking.h"

namespace lockstep {

namespace {

using Json = nlohmann::ordered_json;

double seconds_of(Picoseconds time) {
  return seconds(time);
}

Json json_of(const PlanRequest& request, const RankedPlan& plan) {
  const auto& [c, figures, bounds] = plan;
  Json parts{{"compute", seconds_of(figures.parts.compute)},
             {"optimizer", seconds_of(figures.parts.optimizer)},
             {"bubble", seconds_of(figures.parts.bubble)}};
  for (const auto& [axis, time] : figures.parts.exposed) parts["exposed"][axis] = seconds_of(time);
  Json memory;
  for (const MemoryCategory category : all_memory_categories)
    memory[name_of(category)] = figures.memory.of(category);
  Json ranks = Json::array();  // one of several that are equal
  for (const auto& [rank, dry] : figures.of_rank) {
    Json bytes;
    for (const Operation operation : all_operations)
      if (dry.bytes_sent[operation] > 0) bytes[name_of(operation)] = dry.bytes_sent[operation];
    ranks.push_back({{"rank", rank}, {"peak", dry.peak_total}, {"bytes_sent", bytes}});
  }
  return {{"dp", c.dp},
          {"tp", c.tp},
          {"pp", c.pp},
          {"cp", c.cp},
          {"ep", c.ep},
          {"zero", c.zero},
          {"microbatch", c.microbatch},
          {"microbatches", c.microbatches(request.task.batch)},
          {"schedule", c.schedule},
          {"chunks", c.chunks},
          {"recompute", name_of(c.recompute)},
          {"flags", lesson_flags(request, c)},
          {"step_seconds", seconds_of(figures.step)},
          {"mfu", figures.step > 0 ? model_flops_utilization(request.task, figures.step) : 0},
          {"slowest_rank", figures.slowest},
          {"parts", parts},
          {"peak", figures.peak},
          {"fullest_rank", figures.fullest},
          {"memory", memory},
          {"ranks", ranks},
          {"bounds", {{"step_seconds", seconds_of(bounds.step)}, {"memory", bounds.memory}}}};
}

}  // namespace

void write_report(const PlanRequest& request, const SearchResult& found,
                  const std::vector<RankedPlan>& plans, const std::vector<MetaRun>& reruns) {
  const TrainingTask& task = request.task;
  Json report{{"model", request.model},
              {"parameters", task.model.parameter_count()},
              {"ranks", task.ranks},
              {"batch", task.batch},
              {"cluster", task.cluster.name},
              {"considered", found.considered},
              {"cut_by_memory", found.cut_by_memory},
              {"cut_by_time", found.cut_by_time},
              {"left", found.left},
              {"plans", Json::array()},
              {"too_large", Json::array()}};
  for (std::size_t i = 0; i < plans.size(); ++i) {
    Json plan = json_of(request, plans[i]);
    if (i < reruns.size())
      plan["rerun"] = {{"step_seconds", reruns[i].step_seconds}, {"peak", reruns[i].peak}};
    report["plans"].push_back(plan);
  }
  for (const RankedPlan& plan : found.too_large)
    report["too_large"].push_back(json_of(request, plan));
  std::ofstream out{request.report, std::ios::binary};
  out << report.dump(1) << '\n';
  out.close();
  if (!out) throw UsageError(fmt::format("--report {}: can't be written", request.report));
}

}  // namespace lockstep
