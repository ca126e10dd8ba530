#include "viz/data/step/traffic_matrix.h"

#include <fmt/format.h>

#include <algorithm>

#include "viz/data/step/run_cluster.h"
#include "viz/data/step/words.h"
#include "viz/read/timeline/analysis.h"

namespace lockstep::viz {
namespace {

std::vector<TrafficSum> sums_of(const Timeline& timeline, const std::vector<PeerTraffic>& parts) {
  std::map<std::pair<NameId, NameId>, TrafficSum> sums;
  for (const PeerTraffic& part : parts) {
    TrafficSum& sum = sums[{part.group, part.operation}];
    sum.bytes = plus(sum.bytes, part.bytes);
    sum.messages += part.messages;
  }
  std::vector<TrafficSum> all;
  for (auto& [key, sum] : sums) {
    const std::string& group = timeline.name(key.first);
    sum.words = group.empty() ? timeline.name(key.second) : group + " " + timeline.name(key.second);
    all.push_back(std::move(sum));
  }
  std::ranges::stable_sort(all, std::ranges::greater{}, &TrafficSum::bytes);
  return all;
}

}  // namespace

std::int64_t TrafficMatrix::bytes(int from, int to) const {
  const auto found = cells.find({from, to});
  return found == cells.end() ? 0 : found->second;
}

TrafficMatrix traffic_matrix(const Timeline& timeline, int step) {
  TrafficMatrix matrix{.step = step, .parts = step_traffic(timeline, step)};
  if (const auto cluster = simulated_cluster(timeline.run()))
    matrix.ranks_per_node = std::max(cluster->ranks_per_node, 0);
  for (const auto& rank : timeline.ranks()) matrix.ranks.push_back(rank->rank);
  for (const PeerTraffic& part : matrix.parts) {
    std::int64_t& cell = matrix.cells[{part.from, part.to}];
    cell = plus(cell, part.bytes);
    matrix.highest = std::max(matrix.highest, cell);
    matrix.total = plus(matrix.total, part.bytes);
    if (matrix.ranks_per_node > 0 && part.to >= 0 &&
        matrix.node_of(part.from) != matrix.node_of(part.to))
      matrix.between_nodes = plus(matrix.between_nodes, part.bytes);
  }
  return matrix;
}

std::vector<TrafficSum> traffic_sums(const Timeline& timeline, const TrafficMatrix& matrix) {
  return sums_of(timeline, matrix.parts);
}

std::string node_words(const TrafficMatrix& matrix) {
  if (matrix.ranks_per_node == 0 || matrix.total == 0) return "";
  if (matrix.between_nodes == 0) return "all of it within nodes";
  if (matrix.between_nodes == matrix.total) return "all of it between nodes";
  const std::int64_t within = matrix.total - matrix.between_nodes;
  const Scale scale = Scale::bytes(static_cast<double>(std::max(within, matrix.between_nodes)));
  return fmt::format("{} within nodes, {} between nodes", scale(within),
                     scale(matrix.between_nodes));
}

std::vector<std::string> cell_words(const Timeline& timeline, const TrafficMatrix& matrix, int from,
                                    int to) {
  std::vector<std::string> lines{fmt::format("rank {} to rank {}", from, to)};
  std::vector<PeerTraffic> parts;
  std::ranges::copy_if(matrix.parts, std::back_inserter(parts),
                       [&](const PeerTraffic& part) { return part.from == from && part.to == to; });
  if (parts.empty()) {
    lines.emplace_back("sends nothing in this step");
    return lines;
  }
  lines.push_back(bytes_words(matrix.bytes(from, to)));
  if (matrix.ranks_per_node > 0)
    lines.push_back(
        matrix.node_of(from) == matrix.node_of(to)
            ? fmt::format("both on node {}", matrix.node_of(from))
            : fmt::format("node {} to node {}", matrix.node_of(from), matrix.node_of(to)));
  for (const TrafficSum& sum : sums_of(timeline, parts))
    lines.push_back(fmt::format("{}: {} in {} message{}", sum.words, bytes_words(sum.bytes),
                                sum.messages, sum.messages == 1 ? "" : "s"));
  return lines;
}

}  // namespace lockstep::viz
