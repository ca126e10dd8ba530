#pragma once

#include <array>
#include <optional>
#include <string>
#include <vector>

#include "viz/data/step/mean_step.h"
#include "viz/read/timeline/step_account.h"

namespace lockstep::viz {

// The comparison of a step of one run, A, with a step of another run, B. Every number comes from
// the analysis in viz/read/timeline.

/// An entry of the configuration: its name, and its values in A and in B ("" if the trace has
/// none).
struct ConfigurationEntry {
  std::string name, a, b;
  bool operator==(const ConfigurationEntry&) const = default;
};

/// The differences between the configurations of two runs, according to the headers of their
/// traces.
struct Configurations {
  std::vector<ConfigurationEntry> different;
  std::vector<std::string> same;  ///< names of the entries that both traces have, with equal values
  bool clocks_differ = false;     ///< if so, times cannot be compared
  /// The traces that do not name the model: "A", "B", "A and B" or "".
  std::string without_model;
};
Configurations compare_configurations(const Timeline& a, int step_a, const Timeline& b, int step_b);

/// One rank's figures for a step.
struct RankMetrics {
  int rank = 0;
  Picoseconds compute = 0;                  ///< including the optimizer
  Picoseconds idle = 0;                     ///< the step without computing, see not_computing()
  std::int64_t sent = 0;                    ///< bytes; see bytes_sent()
  std::optional<std::int64_t> memory;       ///< the peak's total; exact if the trace divides memory
                                            ///< into parts
  std::optional<std::int64_t> activations;  ///< of the same sample
  int in_flight = 0;                        ///< the highest number; see InFlight
};

/// The metrics of a step.
struct StepMetrics {
  int step = -1;
  StepAccount account;             ///< where the step's time goes; without pieces
  Interval window;                 ///< see longest_step()
  std::optional<Bubble> bubble;    ///< of a pipeline's actions
  std::vector<RankMetrics> ranks;  ///< in timeline order
  /// Whether weight gradients are separate actions, and how long they run after the last input
  /// gradient of their rank, summed over ranks.
  bool separate_weights = false;
  Picoseconds weights_at_end = 0;
  Picoseconds weights = 0;  ///< how long they run in all, summed over ranks
  int chunks = 0;           ///< of a pipeline; see most_chunks()

  /// The step's length, which its parts add up to on each rank.
  Picoseconds time() const { return account.length; }
  std::int64_t sent() const;
  /// Returns the rank with the highest peak, or null if no rank reports memory.
  const RankMetrics* most_memory() const;
  int in_flight() const;
};
/// Returns the metrics of a step; `step` is -1 if there is no such step. Does not count
/// microbatches in flight in a step that is_small() rejects.
StepMetrics step_metrics(const Timeline& timeline, int step);

/// One quantity of both steps.
struct ComparedValue {
  enum class Unit { time, share, bytes, count };
  std::string name;
  Unit unit = Unit::count;
  std::optional<double> a, b;  ///< picoseconds, shares from 0 to 1, bytes or numbers
  bool part = false;           ///< a part of the last preceding value that is not a part
  /// False for times if the clocks differ, and for microbatches in flight if the numbers of chunks
  /// differ: the activations of a microbatch are then divided differently.
  bool comparable = true;

  std::optional<double> difference() const;
  /// Returns (B - A) / A; nothing if A is 0, or for a share, whose difference is in points.
  std::optional<double> relative() const;
};

/// The rank whose compute changes most, if its factor differs from 1, and from the factors of all
/// other ranks, by at least `least_marked` (as a difference of logarithms).
struct ChangedRank {
  int rank = 0;
  Picoseconds a = 0, b = 0;  ///< see RankMetrics::compute
};
/// Returns nothing if the steps have different ranks, or fewer than two.
std::optional<ChangedRank> most_changed_rank(const StepMetrics& a, const StepMetrics& b);

/// A part of the mean step in both steps: picoseconds per rank.
struct ComparedPart {
  MeanPart::Kind kind;
  std::string name;  ///< see MeanPart
  double a = 0, b = 0;
};
/// Returns the parts that take time in one of the steps, in the order of mean_step(). Their values
/// add up to the length of A, and of B.
std::vector<ComparedPart> compare_parts(const StepMetrics& a, const StepMetrics& b);

/// Returns the differences of the step's length and its parts, the bubble of a pipeline's actions,
/// bytes sent and peak memory. Parts are means over ranks; those that are 0 in both steps are left
/// out.
std::vector<ComparedValue> compare_steps(const StepMetrics& a, const StepMetrics& b,
                                         bool clocks_differ);

/// A rank of both steps: its compute (including the optimizer), idle time, bytes and memory.
struct ComparedRank {
  int rank = 0;
  ComparedValue compute, idle, sent, memory;
  /// Returns the value that differs most, relative to A, by at least `least_marked`; null if the
  /// rank does the same in both steps.
  const ComparedValue* marked() const;
};
constexpr double least_marked = 0.005;
/// Returns the ranks of either step, ascending.
std::vector<ComparedRank> compare_ranks(const StepMetrics& a, const StepMetrics& b,
                                        bool clocks_differ);

/// A value as text, such as "3.25 ms", "32.1 %", "16.4 kB"; "-" if it is unknown.
std::string value_words(ComparedValue::Unit unit, std::optional<double> value);
/// The difference B - A with its sign: "+1.20 ms", "-4.8 pts" (percentage points); "=" if there is
/// none.
std::string difference_words(const ComparedValue& value);
/// The relative difference: "-45.1 %", "×14.3" from ten times on, or "".
std::string relative_words(const ComparedValue& value);
/// The difference in short form: "-41 %", "-0.3 %", "=", or in units if A is 0.
std::string brief_words(const ComparedValue& value);

/// A pair of steps to compare: the last complete steps of both runs that process the same number of
/// microbatches on the same number of stages, or else the last complete steps. If both are the same
/// run: its last complete step, as B, and the last step of the phase before (or, if there is only
/// one phase, the step before). Values are indices into steps(); empty if one run has no such step.
struct StepPair {
  std::size_t a = 0, b = 0;
};
std::optional<StepPair> steps_to_compare(const Timeline& a, const Timeline& b);

}  // namespace lockstep::viz
