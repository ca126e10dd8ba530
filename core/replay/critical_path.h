#pragma once

#include <string>
#include <vector>

#include "core/replay/replay.h"

namespace lockstep {

/// A part of a step's critical path: compute of a rank, or a message in flight.
struct PathPart {
  enum class Kind { compute, transfer, latency };
  Kind kind = Kind::compute;
  int rank = 0;  ///< that computes, or sends
  int to = -1;   ///< the receiver of a message
  const RecordedOperation* operation = nullptr;
  const char* axis = "";  ///< of a message: its group's name, or that of the pipeline's axis
  Picoseconds start = 0;
  Picoseconds end = 0;
  bool operator==(const PathPart&) const = default;
};

/// Returns the critical path of a step, in order: each operation starts when the previous one ends,
/// from the start of the step (on some rank) to its end on the rank that ends last. If the step
/// waits for a message that was sent in an earlier step, the path begins with that message. The
/// path follows the cause of each start: the previous operation on the stream, a message's data or
/// lane, or a late member of a collective. If there are several causes, the rank's own operations
/// take precedence. `step` must be one of the run's.
std::vector<PathPart> critical_path(const Replay& replay, int step);

/// The share of one kind of part in a path.
struct PathShare {
  std::string what;  ///< "forward", "tp transfer", "pp latency"
  Picoseconds time = 0;
};
/// Adds up a path's parts by kind; the largest share comes first.
std::vector<PathShare> shares(const std::vector<PathPart>& path);

}  // namespace lockstep
