#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "viz/read/kineto/calls.h"

namespace lockstep::kineto {

/// The evidence that calls on several ranks are one collective or one message.
enum class MatchedBy : std::uint8_t {
  comms_id,  ///< PyTorch's id of the collective
  sequence,  ///< the process group, and its count of collectives
  label,     ///< for a message: the pipeline action that it belongs to
  order,     ///< the process group or the message's two ranks, and the order within a step
  inferred,  ///< as `order`, but the group or the ranks are inferred
};
/// Returns "Comms Id", "group and Seq", "pipeline labels", "order", "order in inferred groups".
const char* name_of(MatchedBy by);

/// One collective or one message, with the calls of all ranks whose traces include it.
struct Match {
  struct Member {
    std::size_t rank = 0;  ///< index of the trace
    std::size_t call = 0;  ///< index in RankCalls::calls
  };
  CallKind kind = CallKind::other;  ///< `send` for a message
  MatchedBy by = MatchedBy::order;
  /// Whether all members end at nearly the same time, so that their ends show how far their clocks
  /// are apart. True of collectives that synchronize, and of messages between GPUs.
  bool ends_together = false;
  /// At least two: for a message, the sender and the receiver; for a collective, by rank.
  std::vector<Member> members;
};

/// Matches the collectives and messages that several ranks have in common. `ranks`, their
/// `numbers` and their `traces` are parallel. Skips collectives whose process group is unknown.
std::vector<Match> match_calls(const std::vector<RankCalls>& ranks, const std::vector<int>& numbers,
                               const std::vector<Trace>& traces);

}  // namespace lockstep::kineto
