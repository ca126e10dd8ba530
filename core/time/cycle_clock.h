#pragma once

#include <atomic>
#include <cstdint>
#include <optional>

namespace lockstep {

/// How a processor's cycles become the steady clock's nanoseconds, for a while:
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

/// Holds a cycle counter to the steady clock: it is shown pairs of both, and says how one becomes
/// the other until the next pair.
///
/// The rate is that of the last second or two, so it follows the corrections by which a host's
/// clock is kept right. A new map begins at the true time, or, where the old one was ahead, where
/// that one stands, and then runs slower until both agree: time never goes back, and an error lives
/// for one period.
class CycleCalibration {
 public:
  struct Pair {
    std::uint64_t cycles = 0;
    std::int64_t nanoseconds = 0;
  };
  static constexpr std::int64_t first_period = 1'000'000, longest_period = 20'000'000;

  /// The map to use from `cycles` on, given a pair that is not much older; nothing while the rate
  /// is not known well enough yet (the first millisecond), or again, after cycles that make no
  /// sense (a virtual machine that has moved).
  std::optional<CycleMap> next(Pair pair, std::uint64_t cycles);
  /// How many cycles the map of the last call is good for. It is not asked beyond four times that.
  std::uint64_t good_for() const { return good_for_; }

 private:
  void restart(Pair pair);

  bool begun_ = false;
  Pair anchor_, next_anchor_;  ///< the rate's window begins at `anchor_`
  std::optional<CycleMap> map_;
  double rate_ = 0;  ///< nanoseconds per cycle
  std::int64_t period_ = first_period;
  std::uint64_t good_for_ = 0;
};

/// The steady clock, read from the processor's cycle counter where that runs at one rate
/// ("invariant"), whatever the processor does to its own; else from the system. Any thread may ask.
/// Whoever asks first after a period (20 ms) measures anew, some 200 ns; so no thread is needed,
/// and after a sleep or a move of the machine nobody is told a time that was extrapolated for long.
class CycleClock {
 public:
  std::int64_t nanoseconds() {
#if defined(__x86_64__)
    // A sequence lock. All loads acquire, so the version is looked at again after them.
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

  std::atomic<std::uint64_t> version_{0};  ///< odd while the map changes
  std::atomic<std::uint64_t> base_{0}, scale_{0}, limit_{0};
  std::atomic<std::int64_t> nanoseconds_{0};
  std::atomic<bool> measuring_{false};
  CycleCalibration calibration_;  ///< of whoever is measuring
};

/// Whether this processor's cycle counter can tell the time.
bool has_invariant_cycles();

inline constinit CycleClock cycle_clock;

/// The steady clock of this machine, in nanoseconds: within a microsecond of
/// std::chrono::steady_clock, never backwards on one thread, at about half its price. Processes of
/// one host can compare these times.
inline std::int64_t steady_nanoseconds() {
  return cycle_clock.nanoseconds();
}

}  // namespace lockstep
