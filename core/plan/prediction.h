#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "core/base/memory_use.h"
#include "core/plan/communication.h"
#include "core/plan/split_proposal.h"
#include "core/plan/sum_order.h"

namespace lockstep {

/// Consecutive steps with the same schedule and the same m, the number of microbatches. Predictions
/// and observations are reported per phase.
struct Phase {
  std::string name;  ///< "m = 8"
  int first_step = 0;
  int steps = 0;
  int microbatches = 1;  ///< m
  /// The replicas whose samples the steps use, in ascending order; empty: all. The loss is the mean
  /// over these samples.
  std::vector<int> replicas{};
};

/// A predicted number of bytes, or the reason why there is none. A run rejects a Figure that has
/// neither bytes nor a reason, so that a check can't be skipped by accident.
class Figure {
 public:
  Figure() = default;
  Figure(std::int64_t bytes) : bytes_(bytes) {}
  static Figure not_predicted(std::string why) {
    Figure figure;
    figure.why_ = std::move(why);
    return figure;
  }

  explicit operator bool() const { return bytes_.has_value(); }
  std::int64_t operator*() const { return bytes_.value(); }
  /// Returns the reason why the figure is not predicted; empty if the figure is predicted or unset.
  const std::string& why_not() const { return why_; }
  bool is_set() const { return bytes_.has_value() || !why_.empty(); }
  bool operator==(const Figure&) const = default;

 private:
  std::optional<std::int64_t> bytes_;
  std::string why_;
};

/// One value per memory category.
template <class T>
class PerCategory {
 public:
  T& operator[](MemoryCategory category) { return values_[static_cast<std::size_t>(category)]; }
  const T& operator[](MemoryCategory category) const {
    return values_[static_cast<std::size_t>(category)];
  }
  void fill(const T& value) { values_.fill(value); }
  bool operator==(const PerCategory&) const = default;

 private:
  std::array<T, memory_category_count> values_{};
};

/// The predictions for one rank during a phase.
struct Predicted {
  std::string formula;           ///< the bubble's formula: "(p-1)/(m+p-1)"
  std::optional<double> bubble;  ///< the whole step's bubble, from the formula
  /// The bubble according to the simulator, which uses each stage's own costs and the cluster's
  /// link speeds.
  std::optional<double> bubble_simulated;
  /// Bytes sent per step. The figures default to zero; a lesson sets the others.
  PerOperation<Figure> bytes_sent = nothing_sent();
  /// Peak bytes per category. For every category, a lesson must set a figure or give a reason why
  /// there is none.
  PerCategory<Figure> peak_bytes{};
  /// Whether bytes and peaks come from a dry run (core/dry_run), and not from a formula.
  bool by_dry_run = false;
  std::string schedule;  ///< name of the schedule, if the steps follow one
  int stages = 0;
  std::optional<int> in_flight{};  ///< peak number of microbatches in flight on this rank
  /// Computes the order in which replicas' gradients are added; unset if it is the order of the
  /// replicas, starting with replica 0. If the run's results differ from those of a single-device
  /// run, the order helps to distinguish rounding errors from mistakes.
  std::function<SumOrder()> sum_order;
  /// Searches for a better division of the blocks into stages; unset if the simulator does not know
  /// the stages' times. Only rank 0's prediction needs it.
  std::function<SplitProposal()> propose_split{};
  /// Sets bytes and peaks that depend on the data, such as the bytes that a router sends. Called on
  /// the rank's thread at the end of the phase, when the rest of the prediction is already in the
  /// trace.
  std::function<void(Predicted&)> at_end;

  /// Returns the names of the figures that are not predicted, such as "all_reduce" or "peak
  /// gradients", each with the reason.
  std::vector<std::pair<std::string, std::string>> missing() const {
    std::vector<std::pair<std::string, std::string>> figures;
    for (const Operation operation : all_operations)
      if (const Figure& figure = bytes_sent[operation]; !figure)
        figures.emplace_back(name_of(operation), figure.why_not());
    for (const MemoryCategory category : all_memory_categories)
      if (const Figure& figure = peak_bytes[category]; !figure)
        figures.emplace_back(std::string{"peak "} + name_of(category), figure.why_not());
    return figures;
  }

  /// Returns a prediction without memory figures, for the reason `why`.
  static Predicted without_memory(const std::string& why) {
    Predicted predicted;
    predicted.peak_bytes.fill(Figure::not_predicted(why));
    return predicted;
  }

  static PerOperation<Figure> nothing_sent() {
    PerOperation<Figure> none;
    for (const Operation operation : all_operations) none[operation] = 0;
    return none;
  }
};

}  // namespace lockstep
