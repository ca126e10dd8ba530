#include "core/time/cluster.h"

#include <fmt/format.h>

#include <algorithm>

#include "core/base/error.h"
#include "core/base/printable.h"

namespace lockstep {

Picoseconds Cluster::compute(const Cost& cost) const {
  if (!rates)
    return picoseconds(std::max(cost.flops / flops, cost.bytes / memory_bandwidth) +
                       launch_seconds);
  switch (cost.kind) {
    case KernelKind::product:
      return picoseconds(cost.flops / rates->products.at(cost) + launch_seconds);
    case KernelKind::attention:
      return picoseconds(cost.flops / rates->attention.at(cost) + launch_seconds);
    case KernelKind::memory:
      break;
  }
  return picoseconds(
      std::max(cost.flops / flops, cost.bytes / (memory_bandwidth * rates->memory_share)) +
      launch_seconds);
}

const char* Cluster::rates_text() const {
  const auto differs = [&](const RankGroup& group) {
    return group.rates.has_value() != rates.has_value();
  };
  if (std::ranges::any_of(groups, differs)) return "partly at measured rates, partly at peak";
  return rates ? "at measured rates" : "at peak";
}

int Cluster::group_of(int rank) const {
  for (std::size_t i = 0; i < groups.size(); ++i)
    if (std::ranges::binary_search(groups[i].ranks, rank)) return static_cast<int>(i);
  return -1;
}

Cluster Cluster::as_seen_by(int rank) const {
  Cluster seen = *this;
  seen.groups.clear();
  const int found = group_of(rank);
  if (found < 0) return seen;
  const RankGroup& group = groups[static_cast<std::size_t>(found)];
  seen.flops = group.flops;
  seen.memory_bandwidth = group.memory_bandwidth;
  seen.memory = group.memory;
  seen.launch_seconds = group.launch_seconds;
  seen.rates = group.rates;
  return seen;
}

const std::string& Cluster::device_name(int rank) const {
  const int found = group_of(rank);
  return found < 0 ? name : groups[static_cast<std::size_t>(found)].name;
}

Link::Segment Link::at(std::int64_t bytes) const {
  Segment found{0, latency_seconds, bandwidth};
  double least = std::numeric_limits<double>::infinity();
  for (const Protocol& protocol : protocols) {
    const double time = protocol.latency_seconds + static_cast<double>(bytes) / protocol.bandwidth;
    if (bytes > protocol.up_to_bytes || time >= least) continue;
    least = time;
    found = {0, protocol.latency_seconds, protocol.bandwidth};
  }
  for (const Segment& segment : segments)
    if (segment.from_bytes <= bytes) found = segment;
  return found;
}

Picoseconds Cluster::latency(int from, int to, std::int64_t bytes) const {
  return picoseconds(link(from, to).at(bytes).latency_seconds);
}

Picoseconds Cluster::transfer(int from, int to, std::int64_t bytes) const {
  return picoseconds(static_cast<double>(bytes) / link(from, to).at(bytes).bandwidth);
}

const Link& Cluster::link(int from, int to) const {
  return from / ranks_per_node == to / ranks_per_node ? within : between;
}

void Cluster::refuse_late_time() const {
  throw UsageError(fmt::format(
      "cluster '{}' ({:g} FLOP/s per rank): this takes more than 46 days of modelled time, the "
      "most "
      "that the clock counts; choose fewer steps, a smaller batch or model, or a faster --cluster",
      excerpt(name), flops));
}

bool Cluster::on_one_node(std::span<const int> ranks) const {
  return std::ranges::all_of(
      ranks, [&](int rank) { return rank / ranks_per_node == ranks.front() / ranks_per_node; });
}

}  // namespace lockstep
