#pragma once

#include <benchmark/benchmark.h>

#include <string>
#include <vector>

#include "tests/bench/timing.h"

/// Figures are ratios of two sides that were timed in turn, in one run: a machine that is slow for
/// a while is so for both. What a benchmark says goes into its counters, which `./lockstep bench`
/// makes a table of:
///
///   value               the figure
///   at_least, at_most   its bound, if any
///   low, high           the quartiles of the rounds that `value` is the median of
///
/// Other counters are shown as they are, and the label says what is compared with what.
namespace lockstep::bench {

/// Rounds of two timings each, in seconds.
class SideBySide {
 public:
  void add(double ours, double other) {
    ours_.push_back(ours);
    other_.push_back(other);
  }
  /// How many times as fast as the other ours is, by rounds.
  std::vector<double> speeds() const {
    std::vector<double> speeds;
    for (std::size_t i = 0; i < ours_.size(); ++i) speeds.push_back(other_[i] / ours_[i]);
    return speeds;
  }
  double ours() const { return median(ours_); }
  double other() const { return median(other_); }

 private:
  std::vector<double> ours_, other_;
};

/// Times both in turn, `rounds` times, first the one and then the other first, after a round to
/// warm up. Each is called and returns its seconds.
template <class Ours, class Other>
SideBySide take_turns(int rounds, Ours&& ours, Other&& other) {
  SideBySide result;
  for (int round = -1; round < rounds; ++round) {
    double mine = 0;
    double theirs = 0;
    if (round % 2 == 0) mine = ours();
    theirs = other();
    if (round % 2 != 0) mine = ours();
    if (round >= 0) result.add(mine, theirs);
  }
  return result;
}

/// Puts the figure, its quartiles and both sides' times into the counters.
inline void report(benchmark::State& state, const SideBySide& sides, double at_least,
                   const std::string& what) {
  const std::vector<double> speeds = sides.speeds();
  state.counters["value"] = median(speeds);
  state.counters["low"] = quantile(speeds, 0.25);
  state.counters["high"] = quantile(speeds, 0.75);
  state.counters["ours_ms"] = 1e3 * sides.ours();
  state.counters["other_ms"] = 1e3 * sides.other();
  if (at_least > 0) state.counters["at_least"] = at_least;
  state.SetLabel(what);
}

/// Registers a benchmark that measures by itself how often it wants to.
template <class Work>
void add(const std::string& name, Work work) {
  benchmark::RegisterBenchmark(name.c_str(), [work](benchmark::State& state) {
    for (auto _ : state) work(state);
  })->Iterations(1);
}

}  // namespace lockstep::bench
