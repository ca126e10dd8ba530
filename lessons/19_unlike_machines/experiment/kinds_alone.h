#pragma once

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "core/run/lesson.h"
#include "core/text/text_table.h"
#include "lessons/19_unlike_machines/search.h"

namespace lockstep {

/// Returns the ranks of the run by the group of their devices.
inline std::map<int, std::vector<int>> kinds_of(const Plan& plan) {
  std::map<int, std::vector<int>> kinds;
  for (int rank = 0; rank < plan.mesh.ranks(); ++rank)
    kinds[plan.modelled->cluster.group_of(rank)].push_back(rank);
  return kinds;
}

/// Returns the cluster that has only these ranks, which are equal, numbered from 0; nothing if a
/// cluster can't describe them, because they share links or are unevenly distributed over nodes.
inline std::optional<Cluster> cluster_of(const Cluster& cluster, const std::vector<int>& ranks) {
  std::map<int, int> on_node;
  for (const int rank : ranks) ++on_node[rank / cluster.ranks_per_node];
  Cluster alone = cluster.as_seen_by(ranks.front());
  alone.nodes = static_cast<int>(on_node.size());
  alone.ranks_per_node = on_node.begin()->second;
  if (alone.shared || std::ranges::any_of(on_node, [&](const auto& each) {
        return each.second != alone.ranks_per_node;
      }))
    return {};
  return alone;
}

/// A division, and the step that it leads to.
struct BestStep {
  WorkDivision division;
  Picoseconds step = 0;
};

/// Returns the shortest step of all meshes dp x pp of `ranks` ranks, with the batch and the size of
/// microbatches of the plan; nothing if none fits in memory. Divisions are either searched for, or
/// even.
inline std::optional<BestStep> best_step(const Plan& plan, const Cluster& cluster, int ranks,
                                         const Composition& chosen, bool search) {
  const int microbatches = plan.batch.microbatches * plan.mesh.size(Axis::dp);
  std::optional<BestStep> best;
  const auto consider = [&](const WorkDivision& division, const Foreseen& foreseen) {
    if (!best || foreseen.step < best->step) best = BestStep{division, foreseen.step};
  };
  for (int dp = 1; dp <= ranks; ++dp) {
    if (ranks % dp != 0 || microbatches % dp != 0 || ranks / dp > plan.model().layers) continue;
    Plan other = plan;
    other.modelled->cluster = cluster;
    other.set_mesh(Mesh{ranks, {1, 1, dp, ranks / dp}});
    other.split.clear();
    other.batch.shares.clear();
    other.batch.microbatches = microbatches / dp;
    if (search) {
      try {
        const auto found = DivisionSearch{other, chosen}.find();
        consider(found.division, found.foreseen);
      } catch (const UsageError&) {  // it does not fit in memory
      }
      continue;
    }
    for (const char* order : {"tp,cp,dp,pp", "tp,cp,pp,dp"}) {
      Plan even = other;
      even.mesh = other.mesh.ordered(order);
      even = divided(even, even_division(even));
      const Foreseen foreseen = foresee(even, chosen);
      if (rank_over_memory(even, foreseen.peak) < 0) consider(division_of(even), foreseen);
    }
  }
  return best;
}

/// Prints, on rank 0, how long a step would take on each kind of device alone and on all ranks
/// together, each with its best mesh, and adds these counterfactuals to the report.
inline void report_kinds_alone(Lesson& lesson, const Rank& rank, const Composition& chosen) {
  const Plan& plan = rank.plan;
  if (rank.id != 0 || !plan.modelled) return;
  const Cluster& cluster = plan.modelled->cluster;
  TableRows rows{{"ranks", "mesh", "blocks of the stages", "microbatches", "step, by replay"}};
  std::string json;
  double rate = 0;  // steps per second, if the kinds' rates added up
  const auto add = [&](const std::string& what, const std::optional<BestStep>& best) {
    if (!best) {
      rows.push_back({what, "-", "-", "-", "does not fit"});
      return;
    }
    const auto& [division, step] = *best;
    rows.push_back(
        {what,
         fmt::format("dp {} x pp {}", division.mesh.size(Axis::dp), division.mesh.size(Axis::pp)),
         fmt::format("{}", fmt::join(division.split, ",")),
         fmt::format("{}", fmt::join(division.shares, ",")), ms(step) + " ms"});
    json += fmt::format(R"({}"{}":{})", json.empty() ? "" : ",", what, step);
  };
  for (const auto& [group, ranks] : kinds_of(plan)) {
    const auto alone = cluster_of(cluster, ranks);
    if (!alone) continue;
    const int count = static_cast<int>(ranks.size());
    const auto best = best_step(plan, *alone, count, chosen, true);
    add(fmt::format("{} x {} alone", count, cluster.device_name(ranks.front())), best);
    if (best) rate += 1 / seconds(best->step);
  }
  const int all = plan.mesh.ranks();
  add(fmt::format("all {}, evenly", all), best_step(plan, cluster, all, chosen, false));
  const auto searched = best_step(plan, cluster, all, chosen, true);
  add(fmt::format("all {}, searched", all), searched);
  lesson.add_to_report(rank, "kinds_alone_picoseconds", "{" + json + "}");
  if (lesson.options().output.quiet) return;
  fmt::print("\nthe same batch on other ranks, each with the best mesh of dp x pp (modelled)\n{}",
             table(rows));
  if (rate > 0 && searched)
    fmt::print("if the rates of all kinds added up: {:.3f} ms\n", 1e3 / rate);
}

}  // namespace lockstep
