#pragma once

#include <array>
#include <chrono>
#include <cmath>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>

#include "core/base/category.h"
#include "core/time/cluster.h"

namespace lockstep {

/// Returns the time of this machine's steady clock in nanoseconds. Times from different processes
/// on one host are comparable.
inline std::int64_t steady_nanoseconds() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(
             std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

enum class ClockKind { wall, modelled };

/// Fixed compute times, from `--time forward=1ms,backward=2ms`. Each time applies to one action of
/// the category, on one stage and for one microbatch. If any time is given, all other compute takes
/// no time.
class FixedTimes {
 public:
  /// Throws UsageError for an unknown or repeated category or a unit other than s, ms, us, ns.
  static FixedTimes parse(const std::string& text);

  bool any() const { return any_; }
  std::optional<Picoseconds> of(Category category) const {
    return times_[static_cast<std::size_t>(category)];
  }
  void set(Category category, Picoseconds time) {
    times_[static_cast<std::size_t>(category)] = time;
    any_ = true;
  }
  bool operator==(const FixedTimes&) const = default;

 private:
  std::array<std::optional<Picoseconds>, category_count> times_{};
  bool any_ = false;
};

/// The largest factor by which a rank may be slower.
constexpr double most_slow = 1000;

/// Parses RANK=FACTOR[,RANK=FACTOR...], the value of --slow. Throws UsageError if it is invalid, or
/// if a rank is not below `ranks`.
std::map<int, double> parse_slow(const std::string& text, int ranks);

/// The settings of the modelled clock.
struct ModelledTime {
  Cluster cluster;
  FixedTimes times{};
  /// The factors of ranks whose compute takes longer (above 1) or less time (below 1) than on the
  /// cluster.
  std::map<int, double> slow{};

  double slowness(int rank) const {
    const auto found = slow.find(rank);
    return found != slow.end() ? found->second : 1;
  }
  bool operator==(const ModelledTime&) const = default;
};

/// The clock of a run's timeline. The wall clock is this machine's steady clock, measured from the
/// run's start. The modelled clock shows the times at which the run's events would happen on a
/// given cluster. Each Stream keeps its own modelled time; the Clock only computes costs.
class Clock {
 public:
  /// On the wall clock, ranks_per_node is the only property of the cluster that matters: it tells
  /// which ranks share a node.
  static Clock wall(int ranks_per_node = Cluster{}.ranks_per_node);
  /// Returns the modelled clock of a rank without a group.
  static Clock modelled(Cluster cluster, FixedTimes times = {}, double pace = 0);
  /// Returns the modelled clock of one rank. Fixed times are the same on all devices.
  static Clock modelled(const ModelledTime& time, int rank, double pace = 0);

  ClockKind kind() const { return kind_; }
  bool is_modelled() const { return kind_ == ClockKind::modelled; }
  const char* name() const { return is_modelled() ? "modelled" : "wall"; }
  const Cluster& cluster() const { return cluster_; }

  /// Returns the wall time since the run's start.
  Picoseconds now() const { return since_start(steady_nanoseconds()); }
  Picoseconds since_start(std::int64_t nanoseconds) const { return (nanoseconds - start_) * 1000; }
  /// Returns the steady clock's reading at the run's start, in nanoseconds.
  std::int64_t start_nanoseconds() const { return start_; }
  /// Sets the run's start; all ranks of a run must use the same start.
  void set_start_nanoseconds(std::int64_t start) { start_ = start; }

  /// Returns the time that a kernel takes on the modelled clock, or 0 if fixed times are set.
  /// `slower` multiplies the rank's slowness.
  Picoseconds cost(const Cost& cost, double slower = 1) const {
    return times_.any() ? 0 : slowed((device_ ? *device_ : cluster_).compute(cost), slower);
  }
  /// Returns the fixed time of an action of this category, if there is one.
  std::optional<Picoseconds> fixed(Category category, double slower = 1) const {
    const auto time = times_.of(category);
    return time ? std::optional{slowed(*time, slower)} : time;
  }
  /// Starts pacing. Called at the first step, after the models have been built.
  void start_pace() { pace_start_ = steady_nanoseconds(); }
  /// If a pace is set, sleeps until the wall time at which the modelled time `reached` is due.
  /// Modelled time passes `pace` times as fast as wall time.
  void keep_pace(Picoseconds reached) const;

 private:
  Picoseconds slowed(Picoseconds time, double slower) const {
    const double factor = slowness_ * slower;
    return factor == 1 ? time : stretched(time, factor);
  }

  ClockKind kind_ = ClockKind::wall;
  Cluster cluster_;
  /// The cluster as this rank sees it; unset if all its ranks are equal.
  std::shared_ptr<const Cluster> device_;
  FixedTimes times_;
  double slowness_ = 1;
  double pace_ = 0;
  std::int64_t start_ = 0;
  std::int64_t pace_start_ = 0;
};

}  // namespace lockstep
