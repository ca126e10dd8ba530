#pragma once

#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <vector>

#include "core/pipeline/simulator.h"
#include "lessons/schedules/registry.h"
#include "viz/data/step/lab.h"

namespace lockstep::viz {

/// The pipeline that the lab describes: p ranks with equal work, and one kind of link between them.
struct LabSettings {
  int ranks = 4;
  int chunks = 1;  ///< stages per rank, for the schedules that take this number
  int microbatches = 8;
  // The times of all chunks of a rank for one microbatch. A full backward takes the sum of its
  // halves.
  Picoseconds forward = 1'000'000'000;
  Picoseconds backward_input = 1'000'000'000;
  Picoseconds backward_weight = 1'000'000'000;
  Picoseconds latency = 0;                                     ///< α
  double bandwidth = std::numeric_limits<double>::infinity();  ///< 1/β, bytes per second
  std::int64_t message_bytes = 32'768;  ///< of one microbatch, across a stage boundary
  /// The live microbatches that fit into a rank's memory, in units of the activations that a rank
  /// keeps for one microbatch on all its chunks; 0: no limit.
  int memory_limit = 0;

  Picoseconds backward() const { return backward_input + backward_weight; }
  PipelineSize size(int with_chunks) const { return {ranks, with_chunks, microbatches}; }
  bool operator==(const LabSettings&) const = default;
};

/// The ranges of the settings. Within them, every schedule except a search is simulated within a
/// frame.
struct LabRange {
  static constexpr int least_ranks = 2, most_ranks = 16;
  static constexpr int most_chunks = 4;
  static constexpr int most_microbatches = 64;
  static constexpr Picoseconds least_time = 1'000'000, most_time = 100'000'000'000;
  static constexpr Picoseconds least_latency = 100'000, most_latency = 10'000'000'000;
  static constexpr double least_bandwidth = 1e6, most_bandwidth = 1e12;
  static constexpr std::int64_t least_bytes = 1024, most_bytes = std::int64_t{1} << 30;
};

/// A slider with a logarithmic scale. Its ends may stand for values outside the scale, such as 0 or
/// infinity.
struct LogScale {
  double least = 1, most = 10;
  std::optional<double> left{}, right{};  ///< the values of the ends

  /// Returns the place of a value, from 0 to 1.
  float position(double value) const;
  /// Returns the value at a place, rounded to three digits.
  double value(float position) const;
};

/// The times of a pipeline whose ranks have this many chunks. Each chunk takes its share of the
/// rank's time, rounded down.
PipelineTimes lab_times(const LabSettings& settings, int chunks);

/// Settings with the values of a run, and a sentence about how they differ from it ("" if they do
/// not).
struct SettingsOfRun {
  LabSettings settings;
  std::string note;
};
/// Takes over the values of a question that question_from() has built from a run. Uses the means,
/// because all of the lab's stages are equal.
SettingsOfRun settings_of(const LabQuestion& question);

/// How many microbatches are live on a rank from this time on, in the unit of
/// LabSettings::memory_limit.
struct LivePoint {
  Picoseconds at = 0;
  double live = 0;
};
/// Returns the live microbatches of each rank over time: a microbatch is live on a stage from the
/// start of its F to the end of its B or W. Each chunk holds its share of the rank's activations.
std::vector<std::vector<LivePoint>> live_curves(const Schedule& schedule,
                                                const Simulation& simulation, int chunks);
/// Returns the highest point.
double peak_of(const std::vector<LivePoint>& curve);

/// A simulated schedule.
struct LabResult {
  Schedule schedule;
  PipelineTimes times;
  int chunks = 1;
  Simulation simulation;                     ///< with messages
  std::optional<double> formula;             ///< of the bubble, for free messages
  std::string formula_words;                 ///< "(p-1)/(m+p-1)"
  std::vector<std::vector<LivePoint>> live;  ///< by rank
  std::vector<double> peaks;                 ///< by rank
  double peak = 0;                           ///< the highest
  /// The ranks that hold more than the memory limit.
  std::vector<int> over_limit;
};
/// Simulates a schedule at these settings; `chunks` must be those of the schedule. If the schedule
/// is registered, `known` supplies its formula.
LabResult simulated(Schedule schedule, const LabSettings& settings, int chunks,
                    const KnownSchedule* known);

/// Returns the number of chunks with which a schedule runs at these settings: that of the settings
/// or, if the schedule does not support it, the smallest that it supports. If the schedule does not
/// run, says why in one line.
struct LabFit {
  int chunks = 0;
  std::string refusal;  ///< "" if it runs
};
LabFit fit(const KnownSchedule& known, const LabSettings& settings);

/// Generates a schedule for settings that fit() accepts; a search takes a while.
Schedule generated(const KnownSchedule& known, const LabSettings& settings, int chunks);

// Words for the settings: "forward F 1.00 ms", "links 100 GB/s", "links free".
std::string bandwidth_words(double bandwidth);
std::string limit_words(int limit);
/// Describes the peak: "4 live microbatches on rank 0", with the limit if it is exceeded.
std::string peak_words(const LabResult& result, int limit);
/// Formats a number of microbatches: "4", "5.5".
std::string live_words(double live);

}  // namespace lockstep::viz
