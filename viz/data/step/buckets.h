#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "viz/read/timeline/step_account.h"

namespace lockstep::viz {

/// Returns whether a span belongs to a collective with which replicas sum gradients or exchange the
/// parts of sharded tensors: an all_reduce, reduce_scatter or all_gather of a group along the axis
/// `dp` of the run's mesh, or of any group if the mesh is unknown.
bool is_of_bucket(const Timeline& timeline, const TimelineSpan& span);

/// One such collective, as seen by one rank. Time in which several collectives communicate counts
/// for the one that started first, so that sums over buckets count no time twice.
struct Bucket {
  NameId operation = 0;  ///< such as "all_reduce"
  NameId group = 0;
  int group_size = -1;
  int sequence = -1;       ///< its number in the group; -1 if the trace does not say
  std::int64_t bytes = 0;  ///< that the rank sends for it; 0 if the trace does not say
  Interval time;           ///< from its first start to its last end
  Intervals hidden;        ///< it communicates while the rank computes
  Intervals not_hidden;    ///< it communicates while the rank does not compute
  Intervals exposed;       ///< compute stalls for it: pieces of the step on the group's axis
  Exposed parts;           ///< of `exposed`
  int lane = 0;            ///< of its first span
  TimelineSpan first;

  Picoseconds communication() const { return length(hidden) + length(not_hidden); }
};

/// The buckets of a step on one rank, and the compute that hides them.
struct StepBuckets {
  int step = -1;
  int rank = -1;
  Interval window;                  ///< of the step on all ranks
  std::vector<Bucket> buckets;      ///< by start
  Overlap overlap;                  ///< of the buckets
  Exposed exposed;                  ///< of the buckets
  Overlap other_overlap;            ///< of the rank's other communication
  Exposed other_exposed;            ///< likewise
  std::vector<std::string> others;  ///< operations that are not buckets: "tp all_reduce", "send"
  /// Computing, by kind. `other` contains the optimizer and kernels.
  Intervals forward, backward, other;
  Intervals forward_passes, backward_passes;  ///< including the waits within them
};

/// Returns the buckets of one rank in a step. `account` is the account of the step.
StepBuckets step_buckets(const Timeline& timeline, const StepAccount& account,
                         const RankTimeline& rank);

/// Returns the rank with the longest exposed communication, the first one if there is none; null if
/// the account has no ranks.
const RankAccount* most_exposed(const StepAccount& account);

/// Explains the buckets in sentences: the bytes that the rank sends, the share of their time that
/// compute hides, and the passes during which compute stalls.
std::vector<std::string> bucket_sentences(const Timeline& timeline, const StepBuckets& step);

/// Returns the lines that explain one bucket. Times count from the step's start.
std::vector<std::string> bucket_words(const Timeline& timeline, const StepBuckets& step,
                                      std::size_t index);

}  // namespace lockstep::viz
