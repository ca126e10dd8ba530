#pragma once

#include <optional>
#include <string>
#include <vector>

#include "viz/read/kineto/labels.h"
#include "viz/read/kineto/trace.h"
#include "viz/read/timeline/analysis.h"

namespace lockstep::kineto {

/// Call::members of a collective that names no group, in a trace that lists no groups. The group
/// may consist of all ranks.
inline constexpr const char* unknown_group = "all";

/// A collective or a message on one rank.
struct Call {
  std::size_t event = 0;  ///< in Trace::events: the span that moves the bytes
  CallKind kind = CallKind::other;
  Interval time;        ///< of the event
  std::string group;    ///< the program's name for the group; "" if unknown
  std::string members;  ///< identifies the group on all ranks; "" if unknown
  int group_size = -1;
  std::int64_t sequence = -1;
  std::string comms_id;
  std::int64_t bytes = -1;  ///< that the rank contributes, sends or receives
  int peer = -1;            ///< of a message: the other rank
  int step = -1;
  std::optional<PipelineLabel> label{};  ///< of a message between pipeline stages
  bool kernel = false;                   ///< whether a GPU moves the bytes
  bool inferred = false;                 ///< whether group_inference.h inferred `members` or `peer`
};

/// A profiler step on a rank: ProfilerStep#N.
struct Step {
  int step = 0;
  Interval time;
};

/// The steps and calls of one rank's trace.
struct RankCalls {
  std::vector<Step> steps;  ///< by time; a trace without profiler steps is one step, number 0
  bool has_steps = false;   ///< whether the trace has profiler steps
  std::vector<Call> calls;  ///< by start
  /// By event: the step in which it was issued (on the GPU: launched), or -1.
  std::vector<int> step_of;

  /// Returns the step that contains a time on the host, or -1.
  int step_at(Picoseconds time) const;
};

/// Finds the collectives and messages of a trace. On a GPU these are the kernels of communication
/// libraries; on the host, the spans of gloo, or the operators c10d::* if the backend writes no
/// spans. A kernel belongs to the step and the pipeline annotation in which it was launched.
RankCalls find_calls(const Trace& trace);

}  // namespace lockstep::kineto
