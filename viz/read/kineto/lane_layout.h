#pragma once

#include <string>
#include <vector>

#include "viz/read/kineto/calls.h"

namespace lockstep::kineto {

/// The timeline's lanes for one rank: compute (lane 0), the GPU's other streams, communication (one
/// lane per process group and one per direction of messages, on each stream), the host's threads,
/// and their Python functions.
struct LaneLayout {
  std::vector<std::string> names;  ///< by lane
  std::uint16_t compute = 0;       ///< the track that lane 0 shows
  // By track; -1 if the timeline does not show it.
  std::vector<int> of_track;
  std::vector<int> of_python;
  std::vector<int> of_call;  ///< by call
};

/// Lays out the lanes of a rank. `is_call` states, by event, whether it is a call. The compute
/// lane shows the stream with the most work or, without a GPU, the thread that runs the profiler's
/// steps.
LaneLayout lay_out(const Trace& trace, const RankCalls& calls, const std::vector<bool>& is_call);

}  // namespace lockstep::kineto
