#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/timeline/analysis.h"

namespace lockstep::viz {

/// Returns whether a span belongs to a collective by which replicas sum gradients or exchange the
/// parts of sharded tensors: an all_reduce, reduce_scatter or all_gather of a group along the axis
/// `dp` of the run's mesh, or of any group if the mesh is unknown.
bool is_of_bucket(const Timeline& timeline, const TimelineSpan& span);

/// One such collective, as one rank takes part in it. An instant in which several collectives
/// communicate counts for the one that started first, so that sums over buckets count nothing
/// twice.
struct Bucket {
  NameId operation = 0;  ///< such as "all_reduce"
  NameId group = 0;
  int group_size = -1;
  int sequence = -1;       ///< its number in the group; -1 if the trace does not say
  std::int64_t bytes = 0;  ///< that the rank sends for it; 0 if the trace does not say
  Interval time;           ///< from its first start to its last end
  Intervals hidden;        ///< it communicates while the rank computes
  Intervals not_hidden;    ///< it communicates while the rank does not compute
  Intervals exposed;       ///< compute stalls for it, see StepParts
  Picoseconds latency = 0, late_peer = 0;  ///< parts of `exposed`; the rest is transfer
  int lane = 0;                            ///< of its first span
  TimelineSpan first;

  Picoseconds communication() const { return length(hidden) + length(not_hidden); }
  StepParts parts() const;  ///< only the parts of `exposed`
};

/// The buckets of a step on one rank, and what hides them.
struct StepBuckets {
  int step = -1;
  int rank = -1;
  Interval window;                  ///< of the step on all ranks
  std::vector<Bucket> buckets;      ///< by start
  Overlap overlap;                  ///< of the buckets
  StepParts exposed;                ///< of the buckets: only the parts of exposed communication
  Overlap all_overlap;              ///< of all communication of the rank
  Picoseconds all_exposed = 0;      ///< likewise
  std::vector<std::string> others;  ///< operations that are no buckets: "tp all_reduce", "send"
  /// Computing, by kind. `other` has the optimizer and kernels.
  Intervals forward, backward, other;
  Intervals forward_passes, backward_passes;  ///< including the waits within them
};

/// Returns the buckets of one rank in a step. `times` are the rank's step_intervals().
StepBuckets step_buckets(const Timeline& timeline, int step, const RankTimeline& rank,
                         const StepIntervals& times);

/// Returns the index of the rank with the longest exposed communication; 0 if there is none.
std::size_t most_exposed(const std::vector<StepIntervals>& times);

/// Explains the buckets in sentences: what the rank sends, how much of it compute hides, and during
/// which passes it stalls.
std::vector<std::string> bucket_sentences(const Timeline& timeline, const StepBuckets& step);

/// Returns the lines that explain one bucket. Times count from the step's start.
std::vector<std::string> bucket_words(const Timeline& timeline, const StepBuckets& step,
                                      std::size_t index);

}  // namespace lockstep::viz
