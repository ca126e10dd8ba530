#pragma once

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <memory>
#include <numeric>
#include <optional>

#include "core/base/error.h"
#include "core/comm/choose_algorithm.h"
#include "lessons/01_collectives/experiment/account.h"
#include "lessons/01_collectives/experiment/timing.h"
#include "lessons/01_collectives/prediction.h"

namespace lockstep {

/// Times all-reduces of many sizes on 2, 4, 8, ... and all ranks, and prints the observed and
/// predicted times in a table like that of nccl-tests. Then compares all algorithms. All ranks must
/// call each method; rank 0 prints.
class Sweep {
 public:
  /// `machine` holds the α and β for the predictions; only rank 0 needs it. With `quiet`, nothing
  /// is printed.
  Sweep(Rank& rank, Cluster machine, std::int64_t largest_bytes, bool quiet)
      : rank_(rank),
        machine_(std::move(machine)),
        largest_(largest_bytes),
        quiet_(quiet),
        native_(rank.endpoint.collectives == Collectives::native),
        data_(rank.memory, {largest_bytes / 4}, MemoryCategory::communication) {}

  /// Times one algorithm for all sizes and numbers of ranks.
  void over_ranks(Algorithm algorithm) {
    const bool modelled = rank_.clock.is_modelled();
    print("\n{} all-reduce, {} clock, {}; times in µs, bandwidths in GB/s\n", name_of(algorithm),
          rank_.clock.name(), machine_.name);
    print("  {:>5} {:>10} {:>10} {:>10} {:>10} {:>10} {:>11} {:>7} {:>7}{}\n", "ranks", "bytes",
          "latency", "bandwidth", "predicted", modelled ? "" : "all busy", "observed  ", "alg.bw",
          "bus bw", native_ ? fmt::format(" {:>10} {:>7}", "native", "bus bw") : "");
    for (int N = 2; N <= rank_.count; N = N == rank_.count ? N + 1 : std::min(2 * N, rank_.count)) {
      Members members{*this, N};
      const Cluster busy = busy_machine(members);
      for (std::int64_t bytes = smallest; bytes <= largest_; bytes *= 4)
        row(members, algorithm, N, bytes, busy);
    }
    if (modelled) return print("  =: the predicted time, to the picosecond{}\n", not_shared());
    const int cores = available_cores();
    print(
        "  predicted: with α and β of a ping-pong; all busy: with those of all ranks exchanging at "
        "once");
    print("{}\n",
          rank_.count > cores ? fmt::format(" ({} ranks share {} cores)", rank_.count, cores) : "");
    print("  native: {}\n", native_ ? "MPI's own all-reduce"
                            : rank_.transport->name() == std::string{"threads"}
                                ? "none, threads have no library with collectives"
                                : "MPI's own, with --comm native");
  }

  /// Times the textbooks' algorithms on all ranks, then those of libraries such as NCCL. For each
  /// size, prints the algorithm that was fastest and the one predicted to be fastest.
  void over_algorithms() {
    const int N = rank_.count;
    Members members{*this, N};
    const Cluster machine = busy_machine(members);
    const std::vector<Algorithm> textbook{Algorithm::ring, Algorithm::naive, Algorithm::tree,
                                          Algorithm::recursive_doubling, Algorithm::rabenseifner};
    table("all algorithms", textbook, members, machine);
    print_crossings(textbook, N, machine);
    std::vector<Algorithm> of_libraries;
    for (const Algorithm each : candidates(first_ranks(N), rank_.clock.cluster(), on_meta(rank_)))
      if (each == Algorithm::ring || std::ranges::find(textbook, each) == textbook.end())
        of_libraries.push_back(each);
    table("algorithms of libraries", of_libraries, members, machine);
  }

  /// All measurements, as a JSON array; complete on every rank.
  std::string json() const { return "[" + json_ + "]"; }

 private:
  static constexpr std::int64_t smallest = 256;  ///< bytes

  class Members;
  /// Times the algorithms on all ranks, for all sizes.
  void table(const char* title, const std::vector<Algorithm>& algorithms, Members& members,
             const Cluster& machine) {
    const int N = rank_.count;
    print("\n{} on {} ranks, {} clock; observed times in µs\n  {:>10}", title, N,
          rank_.clock.name(), "bytes");
    for (const Algorithm each : algorithms) print(" {:>{}}", name_of(each), width(each));
    print("   fastest\n");
    for (std::int64_t bytes = smallest; bytes <= largest_; bytes *= 4) {
      print("  {:>10}", bytes);
      std::optional<Picoseconds> best;
      Algorithm fastest{};
      for (const Algorithm each : algorithms) {
        const Picoseconds seen = members.time(each, bytes);
        note({each, bytes / 4, predict_all_reduce(each, bytes / 4, N, machine_), seen, {}}, N);
        print(" {:>{}.3f}", micro(seen), width(each));
        if (!best || seen < *best) fastest = each;
        if (!best || seen < *best) best = seen;
      }
      const Algorithm expected = predicted_fastest(algorithms, bytes / 4, N, machine);
      print("   {}{}\n", name_of(fastest),
            expected == fastest ? " =" : fmt::format(" (predicted: {})", name_of(expected)));
    }
    print("  =: as predicted{}\n", not_shared());
  }
  /// The machine under load. On the wall clock, α and β are measured while all ranks communicate.
  /// On the modelled clock, predictions ignore load: they are for links that are not shared.
  Cluster busy_machine(Members& members) const {
    Cluster machine = machine_;
    if (!rank_.clock.is_modelled()) machine.within = machine.between = members.busy_link();
    return machine;
  }
  /// The addition to the legends on a cluster with shared links.
  const char* not_shared() const {
    return machine_.shared ? " (predictions are for links that are not shared)" : "";
  }
  void row(Members& members, Algorithm algorithm, int N, std::int64_t bytes, const Cluster& busy) {
    Measured measured{algorithm,
                      bytes / 4,
                      predict_all_reduce(algorithm, bytes / 4, N, machine_),
                      members.time(algorithm, bytes),
                      {}};
    const AllReduceTime loaded = predict_all_reduce(algorithm, bytes / 4, N, busy);
    std::string theirs;
    if (native_) {
      measured.native = members.native_time(bytes);
      theirs = fmt::format(" {:>10.3f} {:>7.3f}", micro(*measured.native),
                           1e-9 * bus_bandwidth(bytes, seconds(*measured.native), N));
    }
    note(measured, N);
    const AllReduceTime& expected = measured.predicted;
    const double taken = seconds(measured.observed);
    print("  {:>5} {:>10} {:>10.3f} {:>10.3f} {:>10.3f} {:>10} {:>9.3f} {} {:>7.3f} {:>7.3f}{}\n",
          N, bytes, micro(expected.latency), micro(expected.bandwidth), micro(expected.total()),
          rank_.clock.is_modelled() ? "" : fmt::format("{:.3f}", micro(loaded.total())),
          micro(measured.observed), expected.total() == measured.observed ? '=' : ' ',
          1e-9 * algorithm_bandwidth(bytes, taken), 1e-9 * bus_bandwidth(bytes, taken, N), theirs);
  }
  void note(const Measured& measured, int N) {
    if (!json_.empty()) json_ += ',';
    json_ += lockstep::json(measured, N);
  }

  /// The first N ranks, which run the all-reduces while the others wait.
  class Members {
   public:
    Members(Sweep& sweep, int N) : sweep_(sweep) {
      Rank& rank = sweep.rank_;
      const int ours = rank.transport->open_channels(Group::channels_taken);
      const int theirs = rank.transport->open_channels(Group::channels_taken);
      const std::vector<int> ranks = first_ranks(N);
      const int rings = rank.transport->open_channels(
          Rings::channels_taken(ranks, rank.clock.cluster().ranks_per_node));
      if (rank.id >= N) return;
      const Endpoint plain{rank.endpoint.transport, rank.endpoint.device, Collectives::built_in};
      ours_ = std::make_unique<Group>(plain, ranks, fmt::format("{} ranks", N), ours);
      if (ours_->per_node() > 1)
        rings_ = std::make_unique<Rings>(plain, ranks, fmt::format("{} ranks, ring", N), rings);
      if (sweep.native_)
        theirs_ = std::make_unique<Group>(rank.endpoint, ranks, fmt::format("{} ranks, native", N),
                                          theirs);
    }
    Picoseconds time(Algorithm algorithm, std::int64_t bytes) {
      return time(ours_.get(), algorithm, bytes);
    }
    Picoseconds native_time(std::int64_t bytes) {
      return time(theirs_.get(), Algorithm::ring, bytes);
    }

    Link busy_link() { return measure_busy_ring(sweep_.rank_, ours_.get(), sweep_.data_); }

   private:
    Picoseconds time(Group* group, Algorithm algorithm, std::int64_t bytes) {
      Rank& rank = sweep_.rank_;
      const View data = slice(sweep_.data_, 0, bytes / 4);
      if (group == nullptr) return time_of(rank, bytes, {});
      // First checks the result: if every rank contributes ones, every element must become N. Then
      // times sums of zeros, which do not grow when they are repeated.
      fill(data, 1.0F);
      all_reduce(*group, algorithm, data);
      const bool right = std::ranges::all_of(to_host(rank.device, data), [&](float value) {
        return value == static_cast<float>(group->size());
      });
      if (!right)
        throw RunError(fmt::format("rank {}: {} all-reduce of {} B in {} gave a wrong sum", rank.id,
                                   name_of(algorithm), bytes, group->name()));
      fill(data, 0.0F);
      return time_of(rank, bytes, [&] { all_reduce(*group, algorithm, data); });
    }
    void all_reduce(Group& group, Algorithm algorithm, View data) const {
      if (algorithm == Algorithm::rings && rings_)
        rings_->all_reduce(data).wait();
      else
        group.all_reduce(data, algorithm == Algorithm::rings ? Algorithm::ring : algorithm).wait();
    }

    void fill(View data, float value) const {
      Stream& compute = sweep_.rank_.compute;
      if (data) compute.kernels().fill(compute.queue(), data, value);
    }

    Sweep& sweep_;
    std::unique_ptr<Group> ours_, theirs_;
    std::unique_ptr<Rings> rings_;  ///< null, for one ring, without equal blocks on several nodes
  };

  template <class... Args>
  void print(fmt::format_string<Args...> format, Args&&... args) const {
    if (rank_.id == 0 && !quiet_) fmt::print(format, std::forward<Args>(args)...);
  }
  static double micro(Picoseconds time) { return 1e6 * seconds(time); }

  static Algorithm predicted_fastest(const std::vector<Algorithm>& algorithms, std::int64_t n,
                                     int N, const Cluster& machine) {
    return std::ranges::min(algorithms, {}, [&](Algorithm each) {
      return predict_all_reduce(each, n, N, machine).total();
    });
  }

  /// The width of an algorithm's column.
  static std::size_t width(Algorithm algorithm) {
    return std::max<std::size_t>(std::string_view{name_of(algorithm)}.size(), 10);
  }

  static const char* virtue(Algorithm algorithm) {
    switch (algorithm) {
      case Algorithm::ring:
        return "fewest bytes, in messages of n/N";
      case Algorithm::naive:
        return "two messages in a row, but all through one rank";
      case Algorithm::tree:
        return "few rounds, each with the whole array";
      case Algorithm::recursive_doubling:
        return "fewest rounds, each with the whole array";
      case Algorithm::rabenseifner:
        return "fewest bytes, in few rounds";
      default:
        return "";
    }
  }

  /// Prints the sizes within the sweep at which the predicted winner changes, among sizes that all
  /// algorithms can divide evenly.
  void print_crossings(const std::vector<Algorithm>& algorithms, int N,
                       const Cluster& machine) const {
    const std::int64_t unit = std::lcm<std::int64_t>(
        N, static_cast<std::int64_t>(std::bit_floor(static_cast<unsigned>(N))));
    const std::int64_t last = std::max(largest_ / 4 / unit, std::int64_t{1});
    std::int64_t at = std::max(smallest / 4 / unit, std::int64_t{1});
    Algorithm now = predicted_fastest(algorithms, at * unit, N, machine);
    print("  predicted: {} ({})", name_of(now), virtue(now));
    for (;;) {
      std::int64_t other = at;  // searched in steps of a few percent, then by bisection
      while (other <= last && predicted_fastest(algorithms, other * unit, N, machine) == now) {
        at = other;
        other += std::max<std::int64_t>(other / 64, 1);
      }
      if (other > last) break;
      while (other - at > 1) {
        const std::int64_t middle = at + (other - at) / 2;
        (predicted_fastest(algorithms, middle * unit, N, machine) == now ? at : other) = middle;
      }
      at = other;
      now = predicted_fastest(algorithms, at * unit, N, machine);
      print(",\n    from {} B on: {} ({})", 4 * at * unit, name_of(now), virtue(now));
    }
    print("\n");
  }

  Rank& rank_;
  Cluster machine_;
  std::int64_t largest_;
  bool quiet_;
  bool native_;
  Tensor data_;
  std::string json_;
};

}  // namespace lockstep
