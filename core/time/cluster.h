#pragma once

#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include "core/time/time.h"

namespace lockstep {

/// One connection between two ranks: a message of n bytes takes latency + n / bandwidth (α + βn).
struct Link {
  double latency_seconds = 0;
  double bandwidth = std::numeric_limits<double>::infinity();  ///< bytes per second
  bool operator==(const Link&) const = default;
};

/// The machine that modelled time describes. It turns costs into picoseconds, each rounded once,
/// and is the only place that does: the clock of a run and the simulator share it.
struct Cluster {
  std::string name = "free";
  int nodes = 1;
  int ranks_per_node = 1024;
  double flops = 1e12;  ///< of one rank, per second
  double memory_bandwidth =
      std::numeric_limits<double>::infinity();  ///< of one rank, bytes per second
  double launch_seconds = 0;                    ///< added to every kernel
  Link within{};                                ///< between two ranks of one node
  Link between{};                               ///< between two ranks of different nodes

  /// max(flops / F, bytes / B) + launch.
  Picoseconds compute(const Cost& cost) const;
  /// α from one rank to another.
  Picoseconds latency(int from, int to) const {
    return picoseconds(link(from, to).latency_seconds);
  }
  /// β · bytes: how long a message holds the sender's lane.
  Picoseconds transfer(int from, int to, std::int64_t bytes) const;
  const Link& link(int from, int to) const;

  /// A preset by its name, or a cluster file (DESIGN: cluster file). Throws UsageError with one
  /// line that names the file, the key and what would do.
  static Cluster load(const std::string& preset_or_file);
  static std::vector<std::string> presets();
  /// The text of a cluster file that load() reads as this one.
  std::string json() const;
  bool operator==(const Cluster&) const = default;
};

}  // namespace lockstep
