#pragma once

#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "viz/read/timeline/traffic.h"

namespace lockstep::viz {

/// The bytes that each rank sends to each other rank in one step.
struct TrafficMatrix {
  int step = -1;
  std::vector<int> ranks;  ///< ascending
  std::vector<PeerTraffic> parts;
  std::map<std::pair<int, int>, std::int64_t> cells;  ///< bytes by sender and receiver
  std::int64_t total = 0;                             ///< the sum over all parts
  std::int64_t highest = 0;                           ///< the largest cell
  /// The number of consecutive ranks on each node of the modelled cluster; 0 if the trace does not
  /// say.
  int ranks_per_node = 0;
  std::int64_t between_nodes = 0;  ///< of the total

  /// Returns the node of a rank. Needs `ranks_per_node`.
  int node_of(int rank) const { return rank / ranks_per_node; }
  std::int64_t bytes(int from, int to) const;
};

TrafficMatrix traffic_matrix(const Timeline& timeline, int step);

/// A sum of bytes, with a description of its terms.
struct TrafficSum {
  std::string words;
  std::int64_t bytes = 0;
  std::int64_t messages = 0;
};

/// Returns the sums by group and operation, such as "tp all_reduce", the largest first.
std::vector<TrafficSum> traffic_sums(const Timeline& timeline, const TrafficMatrix& matrix);

/// Says how the total divides into traffic within and between nodes; "" if the trace does not say.
std::string node_words(const TrafficMatrix& matrix);

/// Returns the lines that explain one cell: both ranks, the sums, and whether they share a node.
std::vector<std::string> cell_words(const Timeline& timeline, const TrafficMatrix& matrix, int from,
                                    int to);

}  // namespace lockstep::viz
