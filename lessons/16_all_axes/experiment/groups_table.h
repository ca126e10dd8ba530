#pragma once

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <string>
#include <vector>

#include "core/run/lesson.h"
#include "lessons/12_expert_parallel/experiment/expert_load.h"
#include "lessons/15_3d/experiment/axis_traffic.h"
#include "lessons/16_all_axes/all_axes.h"

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

/// Returns the bytes that each axis sends and where they travel on the cluster: the mean of the
/// steps. Every rank must call it; see traffic_table.
inline std::string traffic_along_axes(Rank& rank, const SentTo& sent, bool experts) {
  std::vector<TrafficRow> rows;
  for (const Axis axis : {Axis::tp, Axis::cp, Axis::dp_cp, Axis::pp, Axis::ep}) {
    if (rank.plan.mesh.size(axis) == 1 || (axis == Axis::ep && !experts)) continue;
    TrafficRow& row = rows.emplace_back(TrafficRow{name_of(axis), {name_of(axis)}});
    if (axis == Axis::dp_cp) row.groups = groups_of_replicas();
    if (axis == Axis::pp) row.groups = {""};
  }
  return traffic_table(rank, sent, rows, /*name_width=*/6);
}

/// Prints every group of every axis, and the table of traffic, if there is one.
inline void print_groups(const Plan& plan, bool experts, const std::string& traffic) {
  fmt::print("\n{}", padding_line(plan));
  fmt::print("  axis   ranks share     groups of {} ranks\n", plan.mesh.ranks());
  for (const auto& [axis, share] : axes_of_run(plan.mesh, experts))
    fmt::print("  {:<6} {:<15} {}\n", name_of(axis), share,
               text_of_groups(groups_along(plan.mesh, axis)));
  if (!traffic.empty()) fmt::print("\n{}", traffic);
}

/// Puts all groups, and the load of the experts, into the report, and prints them. Every rank must
/// call it.
inline void report_groups(Lesson& lesson, Rank& rank, const AllAxes& chosen, RoutingRecord& log,
                          const SentTo& sent) {
  const bool experts = chosen.has_experts(), quiet = lesson.options().output.quiet;
  const std::string traffic = traffic_along_axes(rank, sent, experts);
  gather_to_root(*rank.transport, "");  // rank 0 waits until all ranks have recorded their routings
  if (rank.id != 0) return;
  lesson.add_to_report(rank, "groups", groups_json(rank.plan.mesh, experts));
  if (experts) lesson.add_to_report(rank, "experts", load_json(rank.plan, chosen.moe, log));
  if (quiet) return;
  print_groups(rank.plan, experts, traffic);
  if (experts) fmt::print("\n{}", load_by_expert(rank.plan, chosen.moe, log));
}

}  // namespace lockstep
