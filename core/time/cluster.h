#pragma once

#include <cstdint>
#include <limits>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "core/time/rates.h"
#include "core/time/shared_links.h"
#include "core/time/time.h"

namespace lockstep {

/// A link between two ranks: a message of n bytes takes latency + n / bandwidth (α + βn). On real
/// machines α and β depend on the message size, because protocols change with the size, and large
/// messages do not fit in caches. A link may therefore have segments, each with the α and β for
/// messages of `from_bytes` or more; or protocols, of which a message uses the cheapest.
struct Link {
  struct Segment {
    std::int64_t from_bytes = 0;
    double latency_seconds = 0;
    double bandwidth = std::numeric_limits<double>::infinity();  ///< bytes per second
    bool operator==(const Segment&) const = default;
  };
  /// A protocol of a communication library, such as NCCL's low latency, 128 bytes and simple
  /// (src/graph/tuning.cc).
  struct Protocol {
    std::string name;
    double latency_seconds = 0;
    double bandwidth = std::numeric_limits<double>::infinity();  ///< bytes per second
    /// The largest message for which the library uses this protocol.
    std::int64_t up_to_bytes = std::numeric_limits<std::int64_t>::max();
    bool operator==(const Protocol&) const = default;
  };

  double latency_seconds = 0;  ///< like `bandwidth`, for messages below the first segment
  double bandwidth = std::numeric_limits<double>::infinity();
  std::vector<Segment> segments{};  ///< by ascending from_bytes, all positive
  /// If there are any, they replace all of the above. At least one has no `up_to_bytes`.
  std::vector<Protocol> protocols{};

  /// Returns the α and β that apply to a message of `bytes` bytes: those of the cheapest protocol
  /// that is used for this size, the first of equals, or those of the last segment that includes
  /// it.
  Segment at(std::int64_t bytes) const;
  bool operator==(const Link&) const = default;
};

/// Ranks of a cluster whose devices differ from those of its other ranks, such as the nodes of an
/// older generation. The values replace the cluster's values of the same name.
struct RankGroup {
  std::string name;        ///< of the device
  std::vector<int> ranks;  ///< ascending
  double flops = 1e12;
  double memory_bandwidth = std::numeric_limits<double>::infinity();
  std::optional<std::int64_t> memory{};
  double launch_seconds = 0;
  std::optional<Rates> rates{};
  bool operator==(const RankGroup&) const = default;
};

/// The machine that the modelled clock simulates. Converts costs to picoseconds, rounding each cost
/// once. A run's clock and the simulator share these functions; no other code converts costs.
struct Cluster {
  std::string name = "free";
  int nodes = 1;
  int ranks_per_node = 1024;
  double flops = 1e12;  ///< of one rank, per second
  double memory_bandwidth =
      std::numeric_limits<double>::infinity();  ///< of one rank, bytes per second
  /// The memory of one rank's device that a program can allocate, in bytes. Unset: unlimited. The
  /// clock does not use it, and no run fails because of it.
  std::optional<std::int64_t> memory{};
  double launch_seconds = 0;     ///< added to each kernel
  Link within{};                 ///< between two ranks of the same node
  Link between{};                ///< between two ranks of different nodes
  std::optional<Rates> rates{};  ///< unset: every kernel runs at the peak
  /// The sum of n bytes per rank in the switch that joins a node's ranks (NVIDIA's NVLS or SHARP)
  /// takes α + βn. Unset: the switch can't add.
  std::optional<Link> in_switch{};
  std::optional<SharedLinks> shared{};  ///< unset: messages never share a link
  /// Whether all-reduces choose their algorithm by its cost, as a library's do; otherwise they are
  /// rings.
  bool library_collectives = false;
  std::vector<RankGroup> groups{};  ///< no rank is in two groups; empty if all ranks are equal

  /// Returns the time of a kernel on a rank without a group. At peak: max(cost.flops / flops,
  /// cost.bytes / memory_bandwidth)
  /// + launch_seconds. With measured rates, a product or an attention kernel takes its FLOPs over
  /// its rate, which includes its memory traffic, + launch_seconds; other kernels reach only a
  /// share of memory_bandwidth.
  Picoseconds compute(const Cost& cost) const;
  /// Returns how kernels are timed: "at peak", "at measured rates", or partly at either if groups
  /// differ.
  const char* rates_text() const;
  /// Returns the group of a rank as an index in `groups`, or -1 if it is in none.
  int group_of(int rank) const;
  /// Returns the cluster as if all ranks had the device of this one; it has no groups. Whoever asks
  /// for a rank's compute times or memory, asks the result.
  Cluster as_seen_by(int rank) const;
  /// Returns the name of a rank's device: that of its group, or the cluster's.
  const std::string& device_name(int rank) const;
  /// Returns the α of a message of `bytes` bytes between two ranks.
  Picoseconds latency(int from, int to, std::int64_t bytes) const;
  /// Returns β · bytes, the time for which a message occupies the sender's lane.
  Picoseconds transfer(int from, int to, std::int64_t bytes) const;
  const Link& link(int from, int to) const;
  /// Returns the time `duration` after `start`, neither negative. Throws UsageError if it is later
  /// than latest_time.
  Picoseconds after(Picoseconds start, Picoseconds duration) const {
    if (duration > latest_time - start) refuse_late_time();
    return start + duration;
  }
  /// Whether all of these ranks are on one node.
  bool on_one_node(std::span<const int> ranks) const;

  /// Loads a preset by name, or a cluster file (core/time/README.md, "Clusters"). Throws UsageError
  /// for an unknown name or an invalid file; the one-line message names the file, the key and valid
  /// values.
  static Cluster load(const std::string& preset_or_file);
  static std::vector<std::string> presets();
  /// Returns the text of a cluster file from which load() restores this cluster.
  std::string json() const;
  bool operator==(const Cluster&) const = default;

 private:
  [[noreturn]] void refuse_late_time() const;
};

}  // namespace lockstep
