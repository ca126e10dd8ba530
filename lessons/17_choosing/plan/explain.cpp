#include "lessons/17_choosing/plan/explain.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "core/plan/stage_layers.h"
#include "lessons/17_choosing/plan/ranking.h"
#include "lessons/17_choosing/plan/words.h"

namespace lockstep {

namespace {

std::string plural(std::int64_t count, const std::string& what) {
  return fmt::format("{} {}{}", count, what, count == 1 ? "" : "s");
}

/// "on one node", or "across 4 nodes".
std::string where(const std::vector<int>& ranks, const Cluster& cluster) {
  std::set<int> nodes;
  for (const int rank : ranks) nodes.insert(rank / cluster.ranks_per_node);
  return nodes.size() == 1 ? "on one node" : fmt::format("across {} nodes", nodes.size());
}

class Reading {
 public:
  Reading(const TrainingTask& task, const RankedPlan& plan)
      : task_(task), c_(plan.configuration), plan_(plan), run_(planned_run(task, c_)) {}

  std::string text() {
    const std::int64_t nodes =
        (c_.ranks() + task_.cluster.ranks_per_node - 1) / task_.cluster.ranks_per_node;
    std::string product = fmt::format("{} × {} × {}", c_.tp, c_.pp, c_.dp);
    if (c_.cp > 1) product += fmt::format(" × {}", c_.cp);
    text_ = fmt::format("{}\n{} = {}, on {}\n", c_.text(), product, plural(c_.ranks(), "GPU"),
                        plural(nodes, "node"));
    if (c_.tp > 1) tensor();
    if (c_.cp > 1) context();
    if (c_.pp > 1) pipeline();
    replicas();
    if (task_.moe.experts > 0) experts();
    rest();
    return text_;
  }

 private:
  void heading(const std::string& name, const std::string& what) {
    text_ += fmt::format("\n{:<8}{}\n", name, what);
  }
  void point(const std::string& kind, const std::string& what) {
    text_ += fmt::format("        {:<6}{}\n", kind, what);
  }
  std::vector<int> group(Axis axis) const { return run_.plan.mesh.group(0, axis); }

  /// The exposed communication along an axis in the slowest rank's step.
  std::string exposed(const char* axis) const {
    if (plan_.figures.step == 0) return "";
    const auto found = plan_.figures.parts.exposed.find(axis);
    const Picoseconds sum = found == plan_.figures.parts.exposed.end() ? 0 : found->second;
    return fmt::format(": {} of the step, {:.1f} %", time_text(sum, plan_.figures.step),
                       100 * static_cast<double>(sum) / static_cast<double>(plan_.figures.step));
  }

  void tensor() {
    const auto ranks = group(Axis::tp);
    heading(
        fmt::format("TP {}", c_.tp),
        fmt::format("{} neighbours, {}, share every layer: {} of {} heads each, and 1/{} of the "
                    "MLP",
                    c_.tp, where(ranks, task_.cluster), task_.model.heads / c_.tp,
                    task_.model.heads, c_.tp));
    point("buys", fmt::format("1/{} of the block's states{} on a GPU, and 1/{} of its products",
                              c_.tp, c_.sequence_parallel ? " and activations" : "", c_.tp));
    point("costs",
          fmt::format("exchanges in every layer, for which the layer waits{}", exposed("tp")));
  }
  void context() {
    heading(fmt::format("CP {}", c_.cp),
            fmt::format("{} ranks, {}, share every sequence: {} of {} tokens each", c_.cp,
                        where(group(Axis::cp), task_.cluster), task_.model.sequence / c_.cp,
                        task_.model.sequence));
    point("buys", fmt::format("1/{} of the activations on a GPU", c_.cp));
    point(
        "costs",
        "keys and values travel during every attention, which hides them if it takes long enough" +
            exposed("cp"));
  }
  void pipeline() {
    const KnownSchedule& known = *find_schedule(c_.schedule);
    const int m = c_.microbatches(task_.batch), v = c_.chunks;
    const std::vector<int> blocks = even_split(task_.model, c_.pp * v);
    const auto [least, most] = std::ranges::minmax(blocks);
    heading(fmt::format("PP {}", c_.pp),
            fmt::format("{} stages in a row, {}, of {} each{}", c_.pp * v,
                        where(group(Axis::pp), task_.cluster),
                        least == most ? plural(least, "block")
                                      : fmt::format("{} to {} blocks", least, most),
                        v > 1 ? fmt::format("; every GPU has {} of them ({})", v, known.name)
                              : fmt::format(" ({})", known.name)));
    point("buys", fmt::format("1/{} of the states on a GPU, for few bytes: {} per microbatch "
                              "and boundary",
                              c_.pp,
                              bytes_text(run_.plan.boundary(m).bytes() /
                                         (c_.sequence_parallel ? c_.tp : 1))));
    const PipelineSize size{c_.pp, v, m};
    std::string bubble = fmt::format("a bubble, by formula {}", known.formula(size));
    if (const auto share = bubble_of(
            known, size, {.forward = 1, .backward = 2, .backward_input = 1, .backward_weight = 1}))
      bubble += fmt::format(" = {:.1f} % of the step for m = {} and equal stages", 100 * *share, m);
    if (plan_.figures.step > 0)
      bubble += fmt::format("; here {}, {:.1f} %",
                            time_text(plan_.figures.parts.bubble, plan_.figures.step),
                            100 * static_cast<double>(plan_.figures.parts.bubble) /
                                static_cast<double>(plan_.figures.step));
    point("costs", bubble);
  }
  void replicas() {
    const int others = c_.tp * c_.pp * c_.cp;
    heading(
        fmt::format("DP {}", c_.dp),
        fmt::format("{} / {} = {}: {} trains {} of the batch's {} sequences, in m = {} "
                    "microbatches of {}",
                    c_.ranks(), others, plural(c_.dp, "replica"), c_.dp > 1 ? "each" : "it",
                    task_.batch / c_.dp, task_.batch, c_.microbatches(task_.batch), c_.microbatch));
    if (c_.dp * c_.cp == 1) return;
    if (c_.dp > 1)
      point("buys", fmt::format("1/{} of the batch for each replica{}", c_.dp,
                                c_.zero == 0 ? "; DP divides no state, so it does not let a larger "
                                               "model fit"
                                             : ""));
    constexpr const char* divided[] = {"", "the optimizer's states",
                                       "the optimizer's states and the gradients",
                                       "parameters, gradients and the optimizer's states"};
    if (c_.zero > 0)
      point("ZeRO",
            fmt::format("{} divides {} among {} ranks", c_.zero, divided[c_.zero], c_.dp * c_.cp));
    constexpr const char* exchanged[] = {
        "gradients are summed", "gradients are summed and parameters gathered",
        "gradients are summed in each microbatch and parameters gathered",
        "parameters are gathered in every pass, and gradients summed in each microbatch,"};
    point("costs", fmt::format("{} {}{}", exchanged[c_.zero],
                               where(group(Axis::dp_cp), task_.cluster), exposed("dp")));
  }
  void experts() {
    heading(fmt::format("EP {}", c_.ep),
            fmt::format("{} ranks, {}, divide the {} experts of each layer", c_.ep,
                        where(group(Axis::ep), task_.cluster), task_.moe.experts));
    point("costs", "tokens travel to their experts and back in every layer" + exposed("ep"));
  }
  void rest() {
    constexpr const char* recomputed[] = {"nothing: attention keeps its probabilities",
                                          "attention's probabilities",
                                          "whole blocks, which keep only their inputs"};
    text_ += fmt::format("\nbackward recomputes {}\nmemory  {}\n",
                         recomputed[static_cast<int>(c_.recompute)], memory_text(task_, plan_));
    if (task_.cluster.memory && plan_.figures.peak > *task_.cluster.memory)
      text_ += fmt::format("        it does not fit: {} too much\n",
                           bytes_text(plan_.figures.peak - *task_.cluster.memory));
    if (plan_.figures.step > 0)
      text_ +=
          fmt::format("step    {} on {} {}, {:.1f} % of the peak (MFU)\n",
                      time_text(plan_.figures.step), task_.cluster.name, task_.cluster.rates_text(),
                      100 * model_flops_utilization(task_, plan_.figures.step));
  }

  const TrainingTask& task_;
  const Configuration& c_;
  const RankedPlan& plan_;
  const PlannedRun run_;
  std::string text_;
};

}  // namespace

std::string explained(const TrainingTask& task, const RankedPlan& plan) {
  return Reading{task, plan}.text();
}

}  // namespace lockstep
