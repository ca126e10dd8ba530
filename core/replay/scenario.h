#pragma once

#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "core/operations/run_operations.h"
#include "core/time/clock.h"

namespace lockstep {

/// Returns the names of a run's groups, and of the axes of its other messages.
std::set<std::string> axes_of(const RunOperations& run);

/// How recorded operations are timed: on which cluster, and with which changes. A change is a
/// function from operation to operation, or from cluster to cluster; nothing else can change.
class Scenario {
 public:
  explicit Scenario(ModelledTime modelled) : modelled_(std::move(modelled)) {}

  const ModelledTime& modelled() const { return modelled_; }

  /// Applies a change, WHAT=PACE:
  ///
  ///   within, between    all links within a node, or between nodes
  ///   latency            the latency of all links
  ///   an axis            the links as its collectives and messages see them: "tp", "pp", "world"
  ///   rank:R, stage:S    the compute of a rank, or of a pipeline stage
  ///   products, attention, memory    kernels of this kind (KernelKind)
  ///
  /// PACE is free, faster:X or slower:X, which makes something at most `most_slow` times as slow.
  /// A change of compute applies to whole kernels, but a change of a kind of kernel leaves their
  /// launches as they are. Throws UsageError if the change makes no sense for these operations:
  /// they have no such rank, stage or axis, or fixed times instead of kernels.
  void change(const std::string& text, const RunOperations& run);
  /// The changes so far, in words: "between 4 times as fast".
  const std::vector<std::string>& changes() const { return words_; }

  /// Returns the time that an operation takes on the compute stream of a rank with this clock; 0
  /// for messages, collectives and waits.
  Picoseconds duration(const RecordedOperation& operation, const Clock& clock) const;
  /// The cluster with the links that the messages of an axis use.
  const Cluster& links(const std::string& axis) const;
  /// The number of bytes that each byte of an axis counts as on shared links.
  double load(const std::string& axis) const;

 private:
  /// A change to some compute: which kernels, and by what factor their time is multiplied; if they
  /// are of one kind, without their launches.
  struct ComputeChange {
    int stage = -1;                  ///< or any
    std::optional<KernelKind> kind;  ///< or any
    double time = 1;
    bool selects(const RecordedOperation& operation) const;
  };

  ModelledTime modelled_;
  std::map<std::string, Cluster> links_;  ///< by axis, if not the cluster's
  std::map<std::string, double> loads_;   ///< by axis, if not 1
  std::vector<ComputeChange> compute_;
  std::vector<std::string> words_;
};

}  // namespace lockstep
