#pragma once

#include <array>
#include <optional>
#include <string>

#include "core/time/cluster.h"
#include "core/time/cycle_clock.h"
#include "core/trace/span.h"

namespace lockstep {

enum class ClockKind { wall, modelled };

/// Textbook unit times, `--time forward=1ms,backward=2ms`: what an action of a category costs, per
/// stage and microbatch. Where any is given, all other compute is free.
class FixedTimes {
 public:
  /// Throws UsageError for an unknown category or unit (s, ms, us, ns).
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

/// Which time a run's timeline shows. Wall: the steady clock of this machine since the run's start.
/// Modelled: the time that the described cluster would take; it lives in each Stream, and the Clock
/// only says what things cost.
class Clock {
 public:
  static Clock wall();
  static Clock modelled(Cluster cluster, FixedTimes times = {}, double pace = 0);

  ClockKind kind() const { return kind_; }
  bool is_modelled() const { return kind_ == ClockKind::modelled; }
  const char* name() const { return is_modelled() ? "modelled" : "wall"; }
  const Cluster& cluster() const { return cluster_; }
  const FixedTimes& times() const { return times_; }

  /// Wall time since the run's start.
  Picoseconds now() const { return since_start(steady_nanoseconds()); }
  Picoseconds since_start(std::int64_t nanoseconds) const { return (nanoseconds - start_) * 1000; }
  /// The steady clock's nanoseconds at the run's start.
  std::int64_t start_nanoseconds() const { return start_; }
  /// All ranks of a run take one start.
  void set_start_nanoseconds(std::int64_t start) { start_ = start; }

  /// What a kernel costs on the modelled clock (nothing, where fixed times rule).
  Picoseconds cost(const Cost& cost) const { return times_.any() ? 0 : cluster_.compute(cost); }
  /// Pacing counts from here: the first step, when models have been built.
  void start_pace() { pace_start_ = steady_nanoseconds(); }
  /// With a pace, sleeps until modelled time `reached` has come at `pace` times modelled speed.
  void keep_pace(Picoseconds reached) const;

 private:
  ClockKind kind_ = ClockKind::wall;
  Cluster cluster_;
  FixedTimes times_;
  double pace_ = 0;
  std::int64_t start_ = 0;
  std::int64_t pace_start_ = 0;
};

}  // namespace lockstep
