#pragma once

#include <fmt/format.h>

#include <sstream>
#include <string>
#include <vector>

#include "core/base/available_memory.h"
#include "core/comm/transport/control.h"
#include "core/dry_run/dry_run.h"
#include "core/run/rank/rank.h"
#include "lessons/06_tensor_parallel/experiment/slices_grid.h"

namespace lockstep {

/// A row of the table of traffic: a name, and the groups whose bytes it adds up.
struct TrafficRow {
  std::string name;
  std::vector<std::string> groups;
};

/// The groups of the replicas of a stage: one, or the two of hybrid sharding.
inline std::vector<std::string> groups_of_replicas() {
  return {name_of(Axis::dp_cp), "sharers", "replicas"};
}

/// Returns a table of the bytes that all ranks send per step, recomputed, and where they travel on
/// the cluster. `sent` are the bytes of this rank. Every rank must call it; only rank 0 gets the
/// table. Empty on the wall clock.
inline std::string traffic_table(Rank& rank, const SentTo& sent,
                                 const std::vector<TrafficRow>& rows, int name_width) {
  if (!rank.plan.modelled) return {};
  const Cluster& cluster = rank.plan.modelled->cluster;
  std::string mine;  // within and between nodes, by row
  for (const TrafficRow& row : rows) {
    std::int64_t within = 0, between = 0;
    for (const std::string& group : row.groups)
      if (const auto found = sent.find(group); found != sent.end())
        for (const auto& [to, bytes] : found->second)
          (&cluster.link(rank.id, to) == &cluster.within ? within : between) += bytes;
    mine += fmt::format("{} {} ", within, between);
  }
  std::vector<std::istringstream> ranks;
  for (const std::string& each : gather_to_root(*rank.transport, mine)) ranks.emplace_back(each);
  if (rank.id > 0) return {};
  std::string text = "  sent per step, all ranks   within nodes   between nodes\n";
  for (const TrafficRow& row : rows) {
    std::int64_t within = 0, between = 0;
    for (std::istringstream& each : ranks) {
      std::int64_t its_within = 0, its_between = 0;
      each >> its_within >> its_between;
      within += its_within;
      between += its_between;
    }
    const auto cell = [](std::int64_t bytes) { return text_of_bytes(static_cast<double>(bytes)); };
    text += fmt::format("  {:<{}} {:>{}} {:>14} {:>15}\n", row.name, name_width,
                        cell(within + between), 24 - name_width, cell(within), cell(between));
  }
  return text;
}

/// Returns whether the vocabulary is padded and, on the modelled clock, the traffic along each
/// axis. Every rank must call it.
inline std::string axis_traffic(Rank& rank, const SentTo& sent) {
  const std::string padding = padding_line(rank.plan);
  const std::string traffic = traffic_table(
      rank, sent, {{"tp", {"tp"}}, {"dp", groups_of_replicas()}, {"pp", {""}}}, /*name_width=*/2);
  return (rank.plan.modelled || !padding.empty() ? "\n" : "") + padding + traffic;
}

}  // namespace lockstep
