#pragma once

#include <map>
#include <optional>
#include <vector>

#include "core/comm/channel.h"
#include "core/comm/group.h"
#include "core/model/gpt.h"
#include "core/pipeline/message_plan.h"
#include "core/pipeline/schedule.h"
#include "core/plan/boundary.h"

namespace lockstep {

/// Runs any valid schedule on real ranks: the one executor of all pipelines. A MessagePlan says
/// when receives are posted and when sent buffers are released; the executor only follows it.
/// Buffers in flight are charged to MemoryCategory::communication, and everything else that passes
/// between stages to activations.
class PipelineExecutor {
 public:
  /// `group` holds the pipeline's ranks in order of the schedule's ranks; `stages` are the models
  /// of the stages that live on this rank, in ascending order of stage, all on the endpoint's
  /// device; `boundary` is the tensor that a microbatch sends from stage to stage. Group and models
  /// must outlive the executor; `schedule` is copied. Every rank of the run makes its executors in
  /// the same order. Throws ScheduleError for an invalid schedule, and std::invalid_argument if the
  /// number of ranks or of models is not the schedule's.
  PipelineExecutor(Endpoint endpoint, const Group& group, const Schedule& schedule,
                   std::vector<Gpt*> stages, Boundary boundary);

  /// Runs forward and backward of all microbatches and adds to the gradients. The executor decides
  /// which microbatch is the last on each stage (the one whose B or W comes last in the schedule),
  /// whatever Microbatch::last says in the batch. Returns the batch's mean loss on the rank of the
  /// last stage, nothing elsewhere. If each stage runs its backwards in ascending order of
  /// microbatches, losses and gradients have the bits of accumulate_gradients on the whole model.
  /// Throws std::invalid_argument if the number of microbatches is not the schedule's, or their
  /// (b, s) is not the boundary's.
  std::optional<double> step(const Batch& batch);

 private:
  using Message = MessagePlan::Message;

  struct Stage {
    Gpt* model = nullptr;
    int last = 0;  ///< the microbatch after whose backward the gradients are complete
  };
  /// A buffer, which outlives the Work that uses it.
  struct InFlight {
    Tensor data;
    Work work;
  };

  void check(const Batch& batch) const;
  void post_receive(const Message& message);
  Tensor take(const Message& message);
  void send(const Message& message, Tensor data);
  void release(const Message& message);
  Tensor run(const Action& action, Tensor input, const Batch& batch);
  Channel& channel(int peer, const Message& message) {
    return channels_.at({peer, message.forward});
  }

  Endpoint endpoint_;
  Schedule schedule_;
  int rank_;
  Boundary boundary_;
  std::vector<int> world_ranks_;
  MessagePlan plan_;
  std::map<int, Stage> stages_;
  std::map<std::pair<int, bool>, Channel> channels_;  ///< by peer and kind, as the plan's lanes
  std::map<Message, InFlight> received_;              ///< posted, and not used yet
  std::map<Message, InFlight> sent_;                  ///< not released yet
  std::map<Message, Tensor> local_;                   ///< between two stages of this rank
  std::map<std::pair<int, int>, Stash> stashes_;      ///< by stage and microbatch
  std::vector<double> losses_;  ///< by microbatch, on the rank of the last stage
};

}  // namespace lockstep
