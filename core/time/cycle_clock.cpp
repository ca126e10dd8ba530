#include "core/time/cycle_clock.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <limits>
#include <thread>

#if defined(__x86_64__)
#include <cpuid.h>
#endif

namespace lockstep {

namespace {

constexpr std::int64_t window = 1'000'000'000;  ///< nanoseconds over which a rate is measured
constexpr double one = 1 << 30;

std::int64_t system_nanoseconds() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(
             std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

#if defined(__x86_64__)
/// Reads both clocks together. Keeps the fastest of a few attempts, and retries if all attempts
/// were interrupted. The cycles are read first, so a map is never behind the steady clock, and at
/// most a few nanoseconds ahead of it. For a thread that has just read the steady clock, time
/// therefore does not go backwards.
CycleCalibration::Pair read_both() {
  CycleCalibration::Pair best;
  std::uint64_t least = std::numeric_limits<std::uint64_t>::max();
  constexpr std::uint64_t uninterrupted = 2000;  // cycles
  for (int i = 0; i < 5 || (least > uninterrupted && i < 50); ++i) {
    const std::uint64_t before = __builtin_ia32_rdtsc();
    const std::int64_t now = system_nanoseconds();
    const std::uint64_t took = __builtin_ia32_rdtsc() - before;
    if (took > least) continue;
    least = took;
    best = {before, now};
  }
  return best;
}
#endif

}  // namespace

bool has_invariant_cycles() {
#if defined(__x86_64__)
  unsigned a = 0, b = 0, c = 0, d = 0;
  return __get_cpuid(0x80000007, &a, &b, &c, &d) != 0 && (d & (1u << 8)) != 0;
#else
  return false;
#endif
}

void CycleCalibration::restart(Pair pair) {
  begun_ = true;
  anchor_ = next_anchor_ = pair;
  map_.reset();
  period_ = first_period;
  good_for_ = 0;
}

std::optional<CycleMap> CycleCalibration::next(Pair pair, std::uint64_t cycles) {
  if (!begun_ || pair.cycles < anchor_.cycles || cycles < pair.cycles ||
      (map_ && cycles < map_->base)) {
    restart(pair);
    return {};
  }
  const std::int64_t passed = pair.nanoseconds - anchor_.nanoseconds;
  if (passed < first_period) return {};
  const double rate =
      static_cast<double>(passed) / static_cast<double>(pair.cycles - anchor_.cycles);
  // A steady clock's rate is adjusted by at most 0.1 %. A change of more than 1 % means that the
  // readings are from different counters.
  if (map_ && std::abs(rate / rate_ - 1) > 0.01) {
    restart(pair);
    return {};
  }
  rate_ = rate;

  const double truth = static_cast<double>(cycles - pair.cycles) * rate;
  CycleMap map{cycles, pair.nanoseconds + static_cast<std::int64_t>(truth), 0};
  period_ = map_ ? std::min(2 * period_, longest_period) : first_period;
  double slower = 0;
  if (map_) {
    // The latest time that any thread can have read so far.
    const std::int64_t latest_read = map_->at(std::min(cycles, map_->base + 4 * good_for_));
    if (const std::int64_t ahead = latest_read - map.nanoseconds; ahead > 0) {
      slower = std::min(static_cast<double>(ahead) / static_cast<double>(period_), 0.5);
      map.nanoseconds = latest_read;
    }
  }
  map.scale = static_cast<std::uint64_t>(rate * (1 - slower) * one);
  good_for_ = static_cast<std::uint64_t>(static_cast<double>(period_) / rate);
  if (pair.nanoseconds - next_anchor_.nanoseconds >= window) {
    anchor_ = next_anchor_;
    next_anchor_ = pair;
  }
  map_ = map;
  return map;
}

std::int64_t CycleClock::measure() {
  static const bool usable = has_invariant_cycles();
  if (!usable) return system_nanoseconds();
#if defined(__x86_64__)
  for (;;) {
    if (!measuring_.exchange(true, std::memory_order_acquire)) {
      const std::int64_t now = calibrate();
      measuring_.store(false, std::memory_order_release);
      return now;
    }
    // Another thread is calibrating, so use the old map, for at most four times its period.
    const std::uint64_t version = version_.load(std::memory_order_acquire);
    const CycleMap map = load();
    const std::uint64_t limit = 4 * limit_.load(std::memory_order_acquire);
    const std::uint64_t cycles = __builtin_ia32_rdtsc();
    if ((version & 1) == 0 && version_.load(std::memory_order_relaxed) == version) {
      if (cycles - map.base < limit) return map.at(cycles);
      if (limit == 0) return system_nanoseconds();  // within the first millisecond
    }
    std::this_thread::yield();
  }
#endif
}

std::int64_t CycleClock::calibrate() {
#if defined(__x86_64__)
  const CycleCalibration::Pair pair = read_both();
  // From here on no reader returns a time from the old map, so the new map can start where the old
  // map ends. The stores of a sequence lock use release order, so no store becomes visible before
  // the odd version does.
  const std::uint64_t version = version_.load(std::memory_order_relaxed);
  version_.store(version + 1, std::memory_order_relaxed);
  const std::uint64_t cycles = __builtin_ia32_rdtsc();
  const auto map = calibration_.next(pair, cycles);
  base_.store(map ? map->base : 0, std::memory_order_release);
  nanoseconds_.store(map ? map->nanoseconds : 0, std::memory_order_release);
  scale_.store(map ? map->scale : 0, std::memory_order_release);
  limit_.store(map ? calibration_.good_for() : 0, std::memory_order_release);
  version_.store(version + 2, std::memory_order_release);
  return map ? map->nanoseconds : system_nanoseconds();
#else
  return system_nanoseconds();
#endif
}

}  // namespace lockstep
