#pragma once

#include <fmt/format.h>

#include <cstdio>
#include <functional>
#include <numeric>
#include <optional>
#include <string>
#include <vector>

#include "core/base/error.h"
#include "core/comm/choose_algorithm.h"
#include "core/comm/rings.h"
#include "core/run/bare_lesson.h"
#include "lessons/01_collectives/experiment/timing.h"
#include "lessons/01_collectives/prediction.h"

namespace lockstep {

constexpr int largest_by_default = 1 << 22;

/// Throws UsageError for sizes that the lesson does not support.
inline void check_sizes(const Options& options, std::int64_t elements, bool sweep, int largest) {
  // The meta device stores no array: 64 GiB, beyond any size for which nccl-tests is run.
  const std::int64_t most = std::int64_t{1} << (options.platform.on_meta() ? 34 : 26);
  if (elements < 1 || elements > most)
    throw UsageError(fmt::format("--elements {}: must be from 1 to {}", elements, most));
  if (sweep && options.plan.mesh.ranks() < 2)
    throw UsageError("--sweep with --ranks 1: a single rank has no peer; use --ranks 2 or more");
  if (!sweep && largest != largest_by_default)
    throw UsageError(fmt::format(
        "--largest {}: it limits the sizes of --sweep; add --sweep, or leave it out", largest));
  if (largest < 256 || largest % 4 != 0)
    throw UsageError(fmt::format(
        "--largest {}: must be a multiple of 4 bytes and at least 256, the sweep's smallest size",
        largest));
}

/// Throws UsageError for an algorithm that does not exist or can't run.
inline void check_algorithm(const Options& options, const std::string& name) {
  if (name == "auto" || algorithm_of(name) != Algorithm::in_switch) return;
  const auto refuse = [](const std::string& why) {
    throw UsageError("--algorithm in_switch: " + why);
  };
  if (!options.platform.on_meta() || !options.plan.modelled)
    refuse("a cost only, because no rank adds; use --device meta");
  const Cluster& cluster = options.plan.modelled->cluster;
  if (!cluster.in_switch)
    refuse(fmt::format("cluster '{}' has no 'in_switch': its switches can't add", cluster.name));
  if (options.plan.mesh.ranks() > cluster.ranks_per_node)
    refuse("a switch joins the ranks of one node; use fewer --ranks");
}

inline bool on_meta(const Rank& rank) {
  return rank.memory.device() == DeviceKind::meta;
}

inline std::vector<int> first_ranks(int count) {
  std::vector<int> ranks(static_cast<std::size_t>(count));
  std::iota(ranks.begin(), ranks.end(), 0);
  return ranks;
}

/// A group of all ranks that uses our own algorithms even with --comm native, for comparison.
inline Group our_own_collectives(Rank& rank) {
  return {{*rank.transport, rank.device, Collectives::built_in},
          first_ranks(rank.count),
          "ring",
          rank.transport->open_channels(Group::channels_taken)};
}

/// Rings over the same ranks, one per network card, for Algorithm::rings.
inline Rings our_own_rings(Rank& rank) {
  const std::vector<int> all = first_ranks(rank.count);
  const int per_node = rank.clock.cluster().ranks_per_node;
  return {{*rank.transport, rank.device, Collectives::built_in},
          all,
          "ring",
          rank.transport->open_channels(Rings::channels_taken(all, per_node))};
}

/// Returns the run's phase, in which every step is one all-reduce.
inline Phase all_reduces(const BareLesson& lesson, Algorithm algorithm) {
  return {.name = name_of(algorithm), .first_step = 0, .steps = lesson.options().run.steps};
}

/// Predicts the bytes that a rank sends, and its memory: the array and one chunk of scratch memory.
inline Predicted predict(const Plan& plan, const Place& place, Algorithm algorithm,
                         std::int64_t elements) {
  Predicted predicted;
  const int n = plan.mesh.ranks();
  const int node =
      node_of(n, plan.modelled ? plan.modelled->cluster.ranks_per_node : plan.ranks_per_node);
  const bool ring = algorithm == Algorithm::ring;
  if (n > 1)
    predicted.bytes_sent[ring ? Operation::send : Operation::all_reduce] =
        4 * elements_sent(algorithm, elements, n, place.rank, node);
  std::int64_t scratch =
      n == 1 ? 0
      : ring ? chunk_elements(elements, n, 0)
             : all_reduce_scratch(algorithm, elements, n, plan.receives_combine, node);
  if (algorithm == Algorithm::rings) {  // one chunk per ring
    scratch = 0;
    const int rings = Rings::rings_for(elements, n, std::max(1, node));
    for (int r = 0; r < rings; ++r)
      scratch += all_reduce_scratch(Algorithm::ring, chunk_elements(elements, rings, r), n,
                                    plan.receives_combine);
  }
  predicted.peak_bytes.fill(0);  // this lesson has no model
  predicted.peak_bytes[MemoryCategory::communication] = 4 * (elements + scratch);
  return predicted;
}

/// The machine that predictions assume: the given cluster or, on the wall clock, this machine,
/// whose α and β are measured now. All ranks must call this; only rank 0 gets the result.
inline Cluster machine_of(Rank& rank, Group& group, View buffer) {
  if (rank.clock.is_modelled()) return rank.clock.cluster();
  Cluster machine{.name = "this machine"};
  if (rank.count == 1) return machine;
  machine.within = machine.between = measure_ping_pong(rank, group, buffer);
  machine.ranks_per_node = rank.clock.cluster().ranks_per_node;  // as described
  machine.name = fmt::format("this machine's α {:.2f} µs and 1/β {:.2f} GB/s, by ping-pong",
                             1e6 * machine.within.latency_seconds, 1e-9 * machine.within.bandwidth);
  return machine;
}

/// Chooses the algorithm for --algorithm auto. On the modelled clock, uses the formulas; on the
/// wall clock, times every candidate, and takes the fastest. All ranks must call this; all get the
/// same result.
inline Algorithm choose(Rank& rank, View data, const std::function<void(Algorithm, View)>& sum) {
  const std::vector<int> all = first_ranks(rank.count);
  const Cluster& cluster = rank.clock.cluster();
  const auto bytes = static_cast<std::int64_t>(data.bytes());
  if (rank.count == 1) return Algorithm::ring;
  if (rank.clock.is_modelled()) return choose_algorithm(bytes, all, cluster, on_meta(rank));
  rank.device.compute.kernels().fill(rank.compute.queue(), data, 0.0F);
  std::optional<Picoseconds> least;
  Algorithm fastest{};
  for (const Algorithm each : candidates(all, cluster, false)) {
    const Picoseconds time = time_of(rank, bytes, [&] { sum(each, data); });
    if (!least || time < *least) fastest = each;
    least = std::min(least.value_or(time), time);
  }
  return fastest;
}

/// The observed and the predicted time of one all-reduce. `native` is the time of the library's own
/// all-reduce, if requested.
struct Measured {
  Algorithm algorithm;
  std::int64_t elements = 0;
  AllReduceTime predicted;
  Picoseconds observed = 0;
  std::optional<Picoseconds> native;
};

/// With --comm native, times the library's own all-reduce of `data`. All ranks must call this.
inline std::optional<Picoseconds> native_time(Rank& rank, View data) {
  if (rank.endpoint.collectives != Collectives::native || rank.count == 1) return {};
  rank.device.compute.kernels().fill(rank.compute.queue(), data, 0.0F);
  return time_of(rank, static_cast<std::int64_t>(data.bytes()),
                 [&] { rank.world.all_reduce(data).wait(); });
}

inline std::string json(const Measured& measured, int ranks) {
  return fmt::format(
      R"({{"algorithm":"{}","ranks":{},"bytes":{},"latency_seconds":{},"bandwidth_seconds":{},)"
      R"("predicted_seconds":{},"observed_seconds":{},"native_seconds":{}}})",
      name_of(measured.algorithm), ranks, 4 * measured.elements,
      seconds(measured.predicted.latency), seconds(measured.predicted.bandwidth),
      seconds(measured.predicted.total()), seconds(measured.observed),
      measured.native ? fmt::format("{}", seconds(*measured.native)) : "null");
}

/// The observed time beside the predicted one. Predictions ignore shared links (prediction.h), so
/// on a cluster with shared links, the two may differ, and a percentage would look like an error.
inline std::string compared(Picoseconds observed, Picoseconds predicted, const Cluster& machine) {
  if (observed == predicted) return "=, to the picosecond";
  const double ratio = seconds(observed) / seconds(predicted);
  return machine.shared
             ? fmt::format("{:.2f} x the prediction for links that are not shared", ratio)
             : fmt::format("{:+.1f} %", 100 * (ratio - 1));
}

inline void print_time(const Rank& rank, const Cluster& machine, const Measured& measured) {
  const int N = rank.count;
  const std::int64_t bytes = 4 * measured.elements;
  fmt::print("\none {} all-reduce of {} B on {} rank{}, {} clock, {}\n",
             name_of(measured.algorithm), bytes, N, N > 1 ? "s" : "", rank.clock.name(),
             machine.name);
  if (N == 1) {
    fmt::print("  a single rank sends nothing, so it takes no time\n");
    return;
  }
  const AllReduceTime& expected = measured.predicted;
  const auto micro = [](Picoseconds time) { return 1e6 * seconds(time); };
  const std::string how = compared(measured.observed, expected.total(), machine);
  fmt::print("  latency    {:>12.6f} µs\n", micro(expected.latency));
  fmt::print("  bandwidth  {:>12.6f} µs\n", micro(expected.bandwidth));
  fmt::print("  predicted  {:>12.6f} µs   {}\n", micro(expected.total()), expected.formula);
  fmt::print("  observed   {:>12.6f} µs   {}\n", micro(measured.observed), how);
  if (measured.native)
    fmt::print("  native     {:>12.6f} µs   MPI's own\n", micro(*measured.native));
  if (const int cores = available_cores(); !rank.clock.is_modelled() && N > cores)
    fmt::print(
        "  {} ranks share {} cores, which the formula ignores; --sweep measures the effect\n", N,
        cores);
  const int node = node_of(N, machine.ranks_per_node);
  if (node > 0 &&
      (measured.algorithm == Algorithm::hierarchical || measured.algorithm == Algorithm::rings)) {
    const Sent sent = measured.algorithm == Algorithm::rings
                          ? sent_by_rings(measured.elements, N, node, 0)
                          : sent_by_hierarchical(measured.elements, N, node, 0);
    fmt::print("  rank 0 sends {} B within its node and {} B to other nodes\n", 4 * sent.within,
               4 * sent.between);
  }
  if (measured.observed <= 0) return;
  fmt::print("  algorithm bandwidth {:.3f} GB/s, bus bandwidth {:.3f} GB/s\n",
             1e-9 * algorithm_bandwidth(bytes, seconds(measured.observed)),
             1e-9 * bus_bandwidth(bytes, seconds(measured.observed), N));
}

}  // namespace lockstep
