#pragma once

#include <vector>

#include "core/kineto/calls.h"

namespace lockstep::kineto {

/// A forward or backward pass of one microbatch on one rank.
struct Action {
  Category category = Category::forward;
  int stage = -1;       ///< -1: unknown, or the run has no pipeline
  int microbatch = -1;  ///< within the step
  int step = -1;
  std::uint32_t part = 0;  ///< the part of a layer, in Trace::names; 0: the whole stage
  Interval time;           ///< on the host until place_on_gpu()
};

/// How a rank's actions were found.
enum class ActionsFrom : std::uint8_t {
  nothing,
  labels,       ///< PP: annotations of torch.distributed.pipelining
  annotations,  ///< its annotations "Forward 3" and "Backward 3", which name no stage
  parts,        ///< annotations of a layer's parts, as DualPipe's profile has them: "attn(F)"
  flows,        ///< autograd's links from each operator's forward pass to its backward pass
};

struct RankActions {
  ActionsFrom from = ActionsFrom::nothing;
  std::vector<Action> actions;  ///< by start
};

/// Finds the passes of a trace. From flows, they are inferred: operators belong to the same
/// microbatch if neither a pass of the other kind nor a message separates them, in the forward pass
/// or in the backward pass.
RankActions find_actions(const Trace& trace, const RankCalls& calls);

/// Infers the stages of a pipeline whose actions name none, from its messages: the rank that
/// receives nothing before its first forward pass has stage 0, and so on. Does nothing unless every
/// rank has one stage and the ranks form chains. Returns whether stages were inferred.
bool infer_stages(std::vector<RankActions>& actions, const std::vector<RankCalls>& calls,
                  const std::vector<int>& numbers);

/// Labels messages between stages that the trace does not label, if their ranks are known: a
/// rank's n-th message to another carries the n-th result that the other's stages use.
void label_messages(const std::vector<RankActions>& actions, std::vector<RankCalls>& calls,
                    const std::vector<int>& numbers);

/// Replaces the actions' times on the host by those on the GPU: from the start of the first kernel
/// that was launched during the action to the end of the last. Kernels that communicate do not
/// count. Actions without kernels are removed.
void place_on_gpu(const Trace& trace, RankActions& actions);

/// On the host, an action waits for its message first: moves its start to the end of the message.
void start_after_messages(RankActions& actions, const RankCalls& calls);

}  // namespace lockstep::kineto
