#pragma once

#include <vector>

#include "viz/read/kineto/calls.h"

namespace lockstep::kineto {

/// A forward or backward pass of one microbatch on one rank.
struct Action {
  Category category = Category::forward;
  int stage = -1;       ///< -1 if unknown, or if the run has no pipeline
  int microbatch = -1;  ///< within the step
  int step = -1;
  std::uint32_t part = 0;  ///< the part of a layer, in Trace::names; 0 for the whole stage
  Interval time;           ///< on the host until place_on_gpu()
};

/// The source of a rank's actions.
enum class ActionsFrom : std::uint8_t {
  nothing,
  labels,       ///< PP: annotations of torch.distributed.pipelining
  annotations,  ///< the same module's "Forward 3" and "Backward 3", which name no stage
  parts,        ///< annotations of a layer's parts, as in DeepSeek's DualPipe profile: "attn(F)"
  flows,        ///< autograd's links from each forward operator to its backward operator
};

struct RankActions {
  ActionsFrom from = ActionsFrom::nothing;
  std::vector<Action> actions;  ///< by start
};

/// Finds the passes of a trace. If it offers several sources, uses the first in the order of
/// ActionsFrom.
RankActions find_actions(const Trace& trace, const RankCalls& calls);

/// Replaces the actions' times on the host by those on the GPU: from the start of the first kernel
/// that was launched during the action to the end of the last. Ignores communication kernels, and
/// removes actions without kernels.
void place_on_gpu(const Trace& trace, RankActions& actions);

/// Moves the start of each action on the host to the end of its message, because the action first
/// waits for the message.
void start_after_messages(RankActions& actions, const RankCalls& calls);

}  // namespace lockstep::kineto
