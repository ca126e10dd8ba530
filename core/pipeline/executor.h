#pragma once

#include <map>
#include <optional>
#include <vector>

#include "core/comm/group.h"
#include "core/model/gpt.h"
#include "core/model/losses.h"
#include "core/pipeline/schedule.h"
#include "core/pipeline/stage_messages.h"
#include "core/plan/boundary.h"

namespace lockstep {

/// Runs any valid schedule on real ranks. All pipelines that empty themselves after each batch use
/// this one executor. StageMessages handles the messages between stages.
class PipelineExecutor {
 public:
  /// `group` holds the pipeline's ranks in the order of the schedule's ranks. `stages` are the
  /// models of this rank's stages, in ascending stage order, all on the endpoint's device.
  /// `boundary` describes the tensor that passes between two stages for each microbatch. Group and
  /// models must outlive the executor; `schedule` is copied. All ranks of the run must create their
  /// executors in the same order. Throws ScheduleError for an invalid schedule, and
  /// std::invalid_argument if the number of ranks or models does not match the schedule.
  PipelineExecutor(Endpoint endpoint, const Group& group, const Schedule& schedule,
                   std::vector<Gpt*> stages, Boundary boundary);

  /// Runs the forward and backward passes of all microbatches and adds to the models' gradients.
  /// Determines the last microbatch of each stage from the schedule (the one whose B or W comes
  /// last) and ignores the batch's Microbatch::last. Returns the batch's mean loss on the rank of
  /// the last stage, and nothing elsewhere. If each stage runs its backward passes in ascending
  /// microbatch order, losses and gradients are bitwise identical to those of accumulate_gradients
  /// on the whole model. Throws std::invalid_argument if the number of microbatches does not match
  /// the schedule, or their (b, s) does not match the boundary.
  std::optional<BatchLoss> step(const Batch& batch);

  /// When this rank's actions ran in a step, by the compute stream's time: from the first start to
  /// the last end, and their durations added up. (On a GPU with the wall clock, the host is ahead
  /// of the actions, so only a trace shows when they ran.)
  struct Ran {
    Picoseconds first = 0;
    Picoseconds last = 0;
    Picoseconds busy = 0;
  };
  /// Returns when the actions of the last step ran.
  const Ran& ran() const { return ran_; }

 private:
  struct Stage {
    Gpt* model = nullptr;
    int last = 0;  ///< last microbatch: its backward pass completes the gradients
  };

  void check(const Batch& batch) const;
  /// Runs an action within a span of the trace.
  Tensor run_traced(const Action& action, Tensor input, const Batch& batch);
  Tensor run(const Action& action, Tensor input, const Batch& batch);

  Endpoint endpoint_;
  Schedule schedule_;
  int rank_;
  Boundary boundary_;
  StageMessages messages_;
  std::map<int, Stage> stages_;
  std::map<std::pair<int, int>, Stash> stashes_;  ///< by stage and microbatch
  Ran ran_;
  Losses losses_;  ///< on the rank of the last stage
};

}  // namespace lockstep
