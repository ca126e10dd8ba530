#pragma once

#include <atomic>
#include <cstdint>
#include <optional>

namespace lockstep {

/// Converts a processor's cycles to the steady clock's nanoseconds, for a limited period:
///
///   nanoseconds + (cycles - base) · scale / 2^30
struct CycleMap {
  std::uint64_t base = 0;        ///< cycles
  std::int64_t nanoseconds = 0;  ///< of the steady clock, at `base`
  std::uint64_t scale = 0;       ///< nanoseconds per cycle, times 2^30

  std::int64_t at(std::uint64_t cycles) const {
    return nanoseconds + static_cast<std::int64_t>(((cycles - base) * scale) >> 30);
  }
};

/// Calibrates a cycle counter against the steady clock: given a reading of both clocks, returns the
/// conversion to use until the next reading.
///
/// The rate is measured over the last one to two seconds, so it follows adjustments to the host's
/// clock. A new map starts at the true time, unless the old map is ahead of the true time. In that
/// case the new map starts where the old map ends, and runs slower until it agrees with the true
/// time. Time therefore never goes backwards, and an error lasts for only one period.
class CycleCalibration {
 public:
  struct Pair {
    std::uint64_t cycles = 0;
    std::int64_t nanoseconds = 0;
  };
  static constexpr std::int64_t first_period = 1'000'000, longest_period = 20'000'000;

  /// Returns the map to use from cycle `cycles` onwards, given `pair`, a slightly older reading of
  /// both clocks. Returns nothing while the rate is not accurate enough: in the first millisecond,
  /// and again after implausible readings (for example, if the virtual machine has migrated).
  std::optional<CycleMap> next(Pair pair, std::uint64_t cycles);
  /// Returns the number of cycles for which the last map is valid. The map is never used for more
  /// than four times that number of cycles.
  std::uint64_t good_for() const { return good_for_; }

 private:
  void restart(Pair pair);

  bool begun_ = false;
  Pair anchor_, next_anchor_;  ///< the rate is measured from `anchor_` on
  std::optional<CycleMap> map_;
  double rate_ = 0;  ///< nanoseconds per cycle
  std::int64_t period_ = first_period;
  std::uint64_t good_for_ = 0;
};

/// The steady clock, read from the processor's cycle counter if the counter has a constant rate
/// ("invariant"), otherwise from the system. Thread-safe. The first caller after a period (20 ms)
/// recalibrates the clock, which takes about 200 ns. The clock therefore needs no background
/// thread, and does not extrapolate for long, even after the machine has slept or migrated.
class CycleClock {
 public:
  std::int64_t nanoseconds() {
#if defined(__x86_64__)
    // A sequence lock. All loads use acquire order, so the second check of the version happens
    // after them.
    const std::uint64_t version = version_.load(std::memory_order_acquire);
    const CycleMap map = load();
    const std::uint64_t limit = limit_.load(std::memory_order_acquire);
    const std::uint64_t cycles = __builtin_ia32_rdtsc();
    if (cycles - map.base < limit && (version & 1) == 0 &&
        version_.load(std::memory_order_relaxed) == version) [[likely]]
      return map.at(cycles);
#endif
    return measure();
  }

 private:
  CycleMap load() const {
    return {base_.load(std::memory_order_acquire), nanoseconds_.load(std::memory_order_acquire),
            scale_.load(std::memory_order_acquire)};
  }
  std::int64_t measure();
  std::int64_t calibrate();

  std::atomic<std::uint64_t> version_{0};  ///< odd while the map is being changed
  std::atomic<std::uint64_t> base_{0}, scale_{0}, limit_{0};
  std::atomic<std::int64_t> nanoseconds_{0};
  std::atomic<bool> measuring_{false};
  CycleCalibration calibration_;  ///< used by the calibrating thread only
};

/// Returns whether this processor's cycle counter runs at a constant rate.
bool has_invariant_cycles();

inline constinit CycleClock cycle_clock;

/// Returns the time of this machine's steady clock in nanoseconds, within a microsecond of
/// std::chrono::steady_clock and at about half its cost. On one thread the time never goes
/// backwards. Times from different processes on one host are comparable.
inline std::int64_t steady_nanoseconds() {
  return cycle_clock.nanoseconds();
}

}  // namespace lockstep
