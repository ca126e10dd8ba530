#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "core/kineto/calls.h"

namespace lockstep::kineto {

/// How the parts of a collective or a message on several ranks were recognised as one.
enum class MatchedBy : std::uint8_t {
  comms_id,  ///< PyTorch's id of the collective
  sequence,  ///< the process group and its count of collectives
  label,     ///< of a message: the pipeline action that it belongs to
  order,     ///< the process group, and the order within a step
  inferred,  ///< the same, in a group that is inferred
};
/// Returns "Comms Id", "group and Seq", "pipeline labels", "order", "order in inferred groups".
const char* name_of(MatchedBy by);

/// One collective, or one message, on the ranks whose traces have it.
struct Match {
  struct Member {
    std::size_t rank = 0;  ///< index of the trace
    std::size_t call = 0;  ///< index in RankCalls::calls
  };
  CallKind kind = CallKind::other;  ///< `send` for a message: first the sender, then the receiver
  MatchedBy by = MatchedBy::order;
  /// Whether the members' ends show how far their clocks are apart: those of collectives that
  /// synchronize, and of messages that two GPUs exchange.
  bool ends_together = false;
  std::vector<Member> members;  ///< at least two, by rank unless it is a message
};

/// Recognises the collectives and messages that several ranks have in common. Ranks are the numbers
/// of the traces, parallel to `ranks`. A collective whose process group is unknown is left out, as
/// its members are.
std::vector<Match> match_calls(const std::vector<RankCalls>& ranks, const std::vector<int>& numbers,
                               const std::vector<Trace>& traces);

}  // namespace lockstep::kineto
