#pragma once

#include <vector>

#include "core/kineto/calls.h"

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
  annotations,  ///< its annotations "Forward 3" and "Backward 3", which name no stage
  parts,        ///< annotations of a layer's parts, as in DeepSeek's DualPipe profile: "attn(F)"
  flows,        ///< autograd's links from each forward operator to its backward operator
};

struct RankActions {
  ActionsFrom from = ActionsFrom::nothing;
  std::vector<Action> actions;  ///< by start
};

/// Finds the passes of a trace, from the first source in the order of ActionsFrom that it contains.
RankActions find_actions(const Trace& trace, const RankCalls& calls);

/// Replaces the actions' times on the host by those on the GPU: from the start of the first kernel
/// that was launched during the action to the end of the last. Ignores communication kernels, and
/// removes actions without kernels.
void place_on_gpu(const Trace& trace, RankActions& actions);

/// On the host, an action first waits for its message. Moves its start to the end of the message.
void start_after_messages(RankActions& actions, const RankCalls& calls);

}  // namespace lockstep::kineto
