#pragma once

#include <benchmark/benchmark.h>

#include <string>
#include <vector>

#include "tests/bench/timing.h"

/// Each figure is the ratio of two sides timed alternately in one run, so a temporary slowdown of
/// the machine affects both sides. A benchmark puts its results into its counters, which
/// `./lockstep bench` turns into a table:
///
///   value               the figure
///   at_least, at_most   its bound, if any
///   low, high           the quartiles over the rounds; `value` is the median
///
/// Other counters appear in the table unchanged. The label names the two sides.
namespace lockstep::bench {

/// The rounds of a comparison, each with one timing of either side, in seconds.
class SideBySide {
 public:
  void add(double ours, double other) {
    ours_.push_back(ours);
    other_.push_back(other);
  }
  /// Returns our speed relative to the other side's, for each round.
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

/// Times both sides for `rounds` rounds, after one warm-up round; the sides take turns in going
/// first. Each side is a function that returns the seconds it took.
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

/// Registers a benchmark that chooses its own number of repetitions.
template <class Work>
void add(const std::string& name, Work work) {
  benchmark::RegisterBenchmark(name.c_str(), [work](benchmark::State& state) {
    for (auto _ : state) work(state);
  })->Iterations(1);
}

}  // namespace lockstep::bench
