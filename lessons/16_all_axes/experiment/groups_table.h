#pragma once

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <string>
#include <vector>

#include "core/run/lesson.h"
#include "lessons/12_expert_parallel/experiment/expert_load.h"
#include "lessons/15_3d/experiment/axis_traffic.h"
#include "lessons/16_all_axes/prediction.h"

namespace lockstep {

/// Returns all groups along an axis, each in ascending order of its ranks' coordinates.
inline std::vector<std::vector<int>> groups_along(const Mesh& mesh, Axis axis) {
  std::vector<std::vector<int>> groups;
  for (int rank = 0; rank < mesh.ranks(); ++rank)
    if (mesh.coordinate(rank, axis) == 0) groups.push_back(mesh.group(rank, axis));
  return groups;
}

/// Returns the axes whose groups a run uses, with what the ranks of a group share.
inline std::vector<std::pair<Axis, const char*>> axes_of_run(const Mesh& mesh, bool experts) {
  std::vector<std::pair<Axis, const char*>> axes;
  for (const auto& [axis, share] : {std::pair{Axis::tp, "each layer"},
                                    {Axis::cp, "each sequence"},
                                    {Axis::dp, "the samples"},
                                    {Axis::pp, "the stages"},
                                    {Axis::dp_cp, "parameters"},
                                    {Axis::ep, "the experts"},
                                    {Axis::edp, "equal experts"}})
    if (mesh.size(axis) > 1 && (experts || (axis != Axis::ep && axis != Axis::edp)))
      axes.emplace_back(axis, share);
  return axes;
}

/// Returns every group of every axis as JSON: {"tp":[[0,1],[2,3]], ...}.
inline std::string groups_json(const Mesh& mesh, bool experts) {
  std::vector<std::string> axes;
  for (const auto& [axis, share] : axes_of_run(mesh, experts))
    axes.push_back(fmt::format("\"{}\":{}", name_of(axis), groups_along(mesh, axis)));
  return fmt::format("{{{}}}", fmt::join(axes, ","));
}

/// Returns the groups in words, "0 1 | 2 3"; if they do not fit, the first ones and their number.
inline std::string text_of_groups(const std::vector<std::vector<int>>& groups) {
  constexpr std::size_t most = 64;  // characters
  std::string text;
  for (std::size_t i = 0; i < groups.size(); ++i) {
    std::string members = fmt::format("{}", fmt::join(groups[i], " "));
    if (members.size() > most / 2)
      members = fmt::format("{} {} .. {}", groups[i][0], groups[i][1], groups[i].back());
    if (text.size() + members.size() > most)
      return text + fmt::format(" | ... {} groups of {}", groups.size(), groups[i].size());
    text += (i == 0 ? "" : " | ") + members;
  }
  return text;
}

/// Returns the mean traffic of the experts in a step, from the routings that happened.
inline AxisTraffic traffic_of_experts(const Plan& plan, const AllAxes& chosen, RoutingLog& log) {
  AxisTraffic traffic{plan.modelled->cluster};
  const int m = plan.batch.microbatches;
  const std::int64_t row = width_of(plan) * plan.model().hidden;
  for (int rank = 0; rank < plan.mesh.ranks(); ++rank) {
    const Place place = plan.place(rank);
    const StageLayers layers = plan.layers_of(place.only_stage());
    for (int member = 0; member < place.size(Axis::ep); ++member) {
      const int other = place.group(Axis::ep)[static_cast<std::size_t>(member)];
      if (other == rank) continue;
      std::int64_t bytes = 0, steps = 1;
      for (int layer = layers.first; layer < layers.last; ++layer) {
        const RoutingLog::Calls& calls =
            log.calls(replica_of(plan.mesh, rank), layer, place.coordinate(Axis::tp));
        for (const RoutedMicrobatch& routed : calls)
          bytes += bytes_to(static_cast<std::size_t>(member), routed, chosen.moe, row,
                            chosen.forwards());
        steps = std::max<std::int64_t>(1, static_cast<std::int64_t>(calls.size()) / m);
      }
      traffic.send(rank, other, bytes / steps);
    }
  }
  return traffic;
}

/// Returns the predicted traffic along one axis.
inline AxisTraffic traffic_along(const Plan& plan, const AllAxes& chosen, RoutingLog& log,
                                 Axis axis) {
  if (axis == Axis::ep) return traffic_of_experts(plan, chosen, log);
  if (axis != Axis::cp) return axis_traffic(plan, chosen, axis, chosen.forwards());
  AxisTraffic traffic{plan.modelled->cluster};
  const int m = plan.batch.microbatches, n = plan.mesh.size(Axis::cp);
  for (int rank = 0; rank < plan.mesh.ranks(); ++rank) {
    const Place place = plan.place(rank);
    const TensorFootprint stage = stage_memory(plan, place, m, chosen);
    const std::int64_t bytes = total(sent_along_cp(plan, place, stage, m, chosen));
    if (chosen.method != ContextMethod::ulysses) {
      traffic.send_around(rank, place.group(axis), bytes);
      continue;
    }
    for (const int other : place.group(axis))
      if (other != rank) traffic.send(rank, other, bytes / (n - 1));
  }
  return traffic;
}

/// Prints every group of every axis and, on the modelled clock, the bytes that each axis sends and
/// where they travel on the cluster.
inline void print_groups(const Plan& plan, const AllAxes& chosen, RoutingLog& log) {
  fmt::print("\n{}", padding_line(plan));
  fmt::print("  axis   ranks share     groups of {} ranks\n", plan.mesh.ranks());
  for (const auto& [axis, share] : axes_of_run(plan.mesh, chosen.has_experts()))
    fmt::print("  {:<6} {:<15} {}\n", name_of(axis), share,
               text_of_groups(groups_along(plan.mesh, axis)));
  if (!plan.modelled) return;
  fmt::print("\n  sent per step, all ranks   within nodes   between nodes\n");
  for (const Axis axis : {Axis::tp, Axis::cp, Axis::dp_cp, Axis::pp, Axis::ep})
    if (plan.mesh.size(axis) > 1 && (axis != Axis::ep || chosen.has_experts()))
      fmt::print("  {:<6} {}\n", name_of(axis),
                 columns_of(traffic_along(plan, chosen, log, axis), 18));
}

/// Puts all groups, and the load of the experts, into the report, and prints them. Every rank must
/// call it.
inline void report_groups(Lesson& lesson, const Rank& rank, const AllAxes& chosen,
                          RoutingRecord& log) {
  const bool experts = chosen.has_experts(), quiet = lesson.options().output.quiet;
  gather_to_root(*rank.transport, "");  // rank 0 waits until all ranks have recorded their routings
  if (rank.id != 0) return;
  lesson.add_to_report(rank, "groups", groups_json(rank.plan.mesh, experts));
  if (experts) lesson.add_to_report(rank, "experts", load_json(rank.plan, chosen.moe, log));
  if (quiet) return;
  print_groups(rank.plan, chosen, log);
  if (experts) fmt::print("\n{}", load_by_expert(rank.plan, chosen.moe, log));
}

}  // namespace lockstep
