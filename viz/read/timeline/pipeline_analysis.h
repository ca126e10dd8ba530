#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <vector>

#include "viz/read/timeline/analysis.h"
#include "viz/read/timeline/timeline.h"

namespace lockstep {

// The dependencies between actions and messages of a pipeline's step: its critical path, and the
// actions that one action depends on or affects. They come from the executed actions and messages
// (pipeline_graph.h), and refer to the window of bubble(): from the first start to the last end of
// the step's pipeline actions.

/// A link of a critical path: an action, a message, or time that neither explains.
struct PathLink {
  enum class Kind : std::uint8_t {
    action,
    transfer,  ///< the message's bytes leave the sender's lane
    latency,   ///< from there to the message's arrival (α on the modelled clock)
    other,     ///< time between a link and the next; on the wall clock, the host's
  };
  Kind kind = Kind::other;
  Interval time;
  int rank = -1;     ///< the rank that ran the action or sent the message
  int to_rank = -1;  ///< the message's receiver
  /// The action, or the action that produced the message.
  int stage = -1;
  int microbatch = -1;
  Category category = Category::kernel;
  /// The part of an action in which its rank waits, for example for an all-reduce in its
  /// tensor-parallel group.
  Picoseconds stalled = 0;
  bool operator==(const PathLink&) const = default;
};

/// The chain of actions and messages that determines a step's length. The links cover the window
/// without gaps and overlaps, so their lengths add up to the step. Each link starts as soon as the
/// one before it ends, because its rank or its lane becomes free or because its input arrives: if
/// an action on the path took longer, so would the step.
struct CriticalPath {
  Interval window;
  std::vector<PathLink> links;  ///< in order of time

  /// The path's length by kind. The parts add up to the window.
  struct Parts {
    std::map<int, Picoseconds> compute;  ///< by stage, without `stalled`
    Picoseconds stalled = 0;
    Picoseconds transfer = 0, latency = 0;
    Picoseconds other = 0;
  };
  Parts parts() const;
};

/// Returns the critical path of a step, or nothing if the step has no pipeline actions. If several
/// paths are equally long, prefers a rank's previous action to a message.
std::optional<CriticalPath> critical_path(const Timeline& timeline, int step);

/// The actions that one action depends on, and those that depend on it, from the stage that reads
/// the data to the optimizer.
struct DataChain {
  /// In order: each action uses the result of the one before it. The backward pass of the last
  /// stage uses the result of that stage's forward pass; a W uses that of its I.
  std::vector<PathLink> before;
  PathLink action;
  std::vector<PathLink> after;  ///< every action that uses the result, directly or not, by time
  /// The optimizer's spans on the ranks on which the chain, from the action on, computes gradients.
  struct Update {
    int rank = 0;
    Interval time;
  };
  std::vector<Update> updates;
};

/// Returns the chain of the pipeline action that starts at `start` on `rank`, or nothing if there
/// is none.
std::optional<DataChain> data_chain(const Timeline& timeline, int step, int rank,
                                    Picoseconds start);

/// The number of microbatches in flight on a rank from a time on. On a rank with several stages
/// (chunks), each microbatch counts once per chunk in which it is in flight.
struct InFlight {
  Picoseconds from = 0;
  int microbatches = 0;
};

/// Returns how the number of microbatches in flight on each rank changes in a step, one list per
/// rank in timeline order. A microbatch is in flight on a stage from the start of its forward to
/// the end of its backward (B, or W after I), as in peak_live_microbatches(); a rank's number is
/// the sum over its stages. A microbatch whose forward ran in an earlier step is in flight from the
/// start of the step. Empty if the step has no pipeline actions.
std::vector<std::vector<InFlight>> microbatches_in_flight(const Timeline& timeline, int step);

/// Returns the number of chunks (stages) of the rank that runs the most in a step; 0 without
/// pipeline actions. If there are several, microbatches_in_flight() counts pairs of a microbatch
/// and a chunk, which can be more than the step's microbatches.
int most_chunks(const Timeline& timeline, int step);

}  // namespace lockstep
