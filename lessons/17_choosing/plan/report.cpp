#include "lessons/17_choosing/plan/report.h"

#include <fmt/format.h>

#include <fstream>
#include <nlohmann/json.hpp>

#include "core/base/error.h"
#include "core/plan/flops.h"
#include "lessons/03_zero_1/zero_memory.h"
#include "lessons/17_choosing/plan/ranking.h"

namespace lockstep {

namespace {

using Json = nlohmann::ordered_json;

/// FLOPs per token of a step: those that Lockstep computes, and those that publications count.
Json flops_of(const GptConfig& model) {
  return {{"computed", model.flops_per_token()},
          {"published", published_flops_per_token(model)},
          {"published_selective", published_flops_per_token_with_selective_recomputation(model)},
          {"published_full", published_flops_per_token_with_full_recomputation(model)}};
}

Json json_of(const MemoryUse& use) {
  Json memory;
  for (const MemoryCategory category : all_memory_categories)
    memory[name_of(category)] = use.of(category);
  return memory;
}

/// Returns the bytes that the representatives send and hold in a step; each stands for all ranks
/// that are equal to it. The model states are those between two steps, by the formula: unlike the
/// peaks, they exclude gathered parameters and gradients that are not divided yet.
Json ranks_of(const TrainingTask& task, const RankedPlan& plan) {
  const auto& c = plan.configuration;
  const PlannedRun run = planned_run(task, c);
  const StateBytes each = is_narrow(task.model.dtype) ? mixed_states : f32_states;
  Json ranks = Json::array();
  for (const auto& [rank, dry] : plan.figures.of_rank) {
    Json bytes;
    for (const Operation operation : all_operations)
      if (dry.bytes_sent[operation] > 0) bytes[name_of(operation)] = dry.bytes_sent[operation];
    std::int64_t elements = 0;
    for (const Held& held : run.plan.place(rank).held) elements += held.slice.elements();
    const ModelStates states = zero_states(c.zero, elements, c.dp * c.cp, each);
    ranks.push_back({{"rank", rank},
                     {"peak", dry.peak_total},
                     {"bytes_sent", bytes},
                     {"memory", json_of(dry.peak)},
                     {"states",
                      {{"parameters", states.parameters},
                       {"gradients", states.gradients},
                       {"optimizer", states.optimizer}}}});
  }
  return ranks;
}

Json json_of(const PlanRequest& request, const RankedPlan& plan) {
  const auto& [c, figures, bounds] = plan;
  Json parts{{"compute", seconds(figures.parts.compute)},
             {"optimizer", seconds(figures.parts.optimizer)},
             {"bubble", seconds(figures.parts.bubble)}};
  for (const auto& [axis, time] : figures.parts.exposed) parts["exposed"][axis] = seconds(time);
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
          {"step_seconds", seconds(figures.step)},
          {"mfu", figures.step > 0 ? model_flops_utilization(request.task, figures.step) : 0},
          {"slowest_rank", figures.slowest},
          {"parts", parts},
          {"peak", figures.peak},
          {"fullest_rank", figures.fullest},
          {"memory", json_of(figures.memory)},
          {"ranks", ranks_of(request.task, plan)},
          {"bounds", {{"step_seconds", seconds(bounds.step)}, {"memory", bounds.memory}}}};
}

}  // namespace

void write_report(const PlanRequest& request, const SearchResult& found,
                  const std::vector<RankedPlan>& plans, const std::vector<MetaRun>& reruns) {
  const TrainingTask& task = request.task;
  Json report{{"model", request.model},
              {"parameters", total_parameters(task)},
              {"ranks", task.ranks},
              {"batch", task.batch},
              {"sequence", task.model.sequence},
              {"cluster", task.cluster.name},
              {"flops_per_token", flops_of(task.model)},
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
