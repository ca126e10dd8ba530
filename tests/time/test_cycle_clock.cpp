#include <doctest/doctest.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cmath>
#include <random>
#include <thread>
#include <vector>

#include "core/time/cycle_clock.h"

using namespace lockstep;

namespace {

/// A counter and a steady clock that drift apart, as on hosts that synchronise their clocks: the
/// rate changes every few seconds by up to 200 parts per million, and reading both clocks takes
/// some time.
class Machine {
 public:
  explicit Machine(unsigned seed) : random_(seed) {}
  void advance(double nanoseconds) {
    for (; nanoseconds > 0; nanoseconds -= 1e9) {
      if (below(3) == 0) rate_ = 2.7 * (1 + (below(400) - 200) * 1e-6);
      const double part = std::min(nanoseconds, 1e9);
      nanoseconds_ += part;
      cycles_ += part * rate_;
    }
  }
  CycleCalibration::Pair pair() {
    const auto before = cycles();
    advance(20 + below(60));
    return {before, nanoseconds()};
  }
  std::uint64_t cycles() const { return static_cast<std::uint64_t>(cycles_); }
  std::int64_t nanoseconds() const { return static_cast<std::int64_t>(nanoseconds_); }
  void jump(double cycles) { cycles_ += cycles; }
  double below(int n) { return static_cast<double>(random_() % static_cast<unsigned>(n)); }

 private:
  std::mt19937 random_;
  double rate_ = 2.7, cycles_ = 1e12, nanoseconds_ = 5e11;
};

std::int64_t system_nanoseconds() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(
             std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

}  // namespace

TEST_CASE("over hours of drift the map agrees with the clock, and never goes back") {
  for (unsigned seed = 0; seed < 3; ++seed) {
    Machine machine{seed};
    CycleCalibration calibration;
    std::optional<CycleMap> map;
    std::int64_t last = 0;
    std::int64_t worst = 0;
    bool back = false;
    for (int i = 0; i < 400'000; ++i) {  // more than two hours
      if (map && i > 100) {
        // Reads the map at a random time while the map is valid, and again near the end of its
        // validity.
        for (const double share : {machine.below(100) / 200, 0.4}) {
          machine.advance(static_cast<double>(calibration.good_for()) / 2.7 * share);
          const std::int64_t now = map->at(machine.cycles());
          back = back || now < last;
          last = now;
          worst = std::max(worst, std::abs(now - machine.nanoseconds()));
        }
      } else {
        machine.advance(3e5);
      }
      if (i % 50'000 == 49'999) machine.advance(3600e9);  // no reading for an hour
      const auto pair = machine.pair();
      machine.advance(10);
      map = calibration.next(pair, machine.cycles());
      if (map) {
        back = back || map->nanoseconds < last;
        last = map->nanoseconds;
      }
    }
    CHECK(map);
    CHECK_FALSE(back);
    CHECK(worst < 10'000);
  }
}

TEST_CASE("a counter that jumps is recalibrated") {
  Machine machine{7};
  CycleCalibration calibration;
  std::optional<CycleMap> map;
  const auto learn = [&] {
    for (int i = 0; i < 20; ++i) {
      machine.advance(2e6);
      const auto pair = machine.pair();
      map = calibration.next(pair, machine.cycles());
    }
  };
  learn();
  REQUIRE(map);
  for (const double jump : {-5e11, 1e13}) {
    CAPTURE(jump);
    machine.jump(jump);
    const auto pair = machine.pair();
    CHECK_FALSE(calibration.next(pair, machine.cycles()));
    CHECK(calibration.good_for() == 0);
    learn();
    REQUIRE(map);
    CHECK(std::abs(map->at(machine.cycles()) - machine.nanoseconds()) < 1000);
  }
}

TEST_CASE("it gives the steady clock's time on every thread, and never goes back") {
  std::atomic<int> wrong{0}, back{0};
  std::vector<std::thread> threads;
  for (int i = 0; i < 3; ++i)
    threads.emplace_back([&] {
      const auto until = system_nanoseconds() + 400'000'000;
      std::int64_t last = 0;
      for (std::int64_t now = 0; now < until;) {
        const std::int64_t before = system_nanoseconds();
        now = steady_nanoseconds();
        const std::int64_t after = system_nanoseconds();
        if (now < before - 20'000 || now > after + 20'000) ++wrong;
        for (int k = 0; k < 200; ++k) {
          if (now < last) ++back;
          last = now;
          now = steady_nanoseconds();
        }
      }
    });
  for (std::thread& thread : threads) thread.join();
  CHECK(wrong == 0);
  CHECK(back == 0);
}
