#pragma once

#include <map>
#include <optional>
#include <tuple>
#include <vector>

#include "core/comm/channel.h"
#include "core/comm/group.h"
#include "core/model/gpt.h"
#include "core/pipeline/schedule.h"

namespace lockstep {

/// What one rank sends, receives and may let go of around each of its actions: read off the
/// schedule before the run, so that the run itself is plain.
class MessagePlan {
 public:
  /// An activation or a gradient on its way into a stage.
  struct Message {
    int from_rank = 0;  ///< pipeline rank
    int to_rank = 0;
    int stage = 0;  ///< the stage that it goes into
    int microbatch = 0;
    bool forward = true;
    bool operator<(const Message& other) const {
      return std::tie(stage, microbatch, forward) <
             std::tie(other.stage, other.microbatch, other.forward);
    }
  };

  MessagePlan(const Schedule& schedule, int rank);

  /// What action i of this rank needs, where it comes from another rank or from this one.
  const std::optional<Message>& input(std::size_t i) const { return inputs_[i]; }
  /// What it makes for another stage.
  const std::optional<Message>& output(std::size_t i) const { return outputs_[i]; }
  /// Messages to this rank over one lane, in the order in which their sender sends them.
  const std::vector<Message>& incoming(int from_rank, bool forward) const;
  /// Where in that order a message is.
  std::size_t position(const Message& message) const { return position_.at(message); }
  /// Sent messages that have surely been received once action i has its input: the receiver
  /// answered after it had used them.
  const std::vector<Message>& received_by(std::size_t i) const { return received_by_[i]; }

 private:
  std::vector<std::optional<Message>> inputs_, outputs_;
  std::map<std::pair<int, bool>, std::vector<Message>> incoming_;
  std::map<Message, std::size_t> position_;
  std::vector<std::vector<Message>> received_by_;
};

/// Runs any valid schedule on real ranks: the one executor of all pipelines. It posts the next
/// receive of each lane early and sends without blocking. A buffer that is in flight is charged to
/// Communication; one that was sent is let go at the first point where the schedule itself proves
/// that it has arrived (see MessagePlan), so that memory does not depend on timing.
class PipelineExecutor {
 public:
  /// `group` holds the pipeline's ranks in order of the schedule's ranks; `stages` are the models
  /// of the stages that live on this rank, in ascending order of stage, all on the endpoint's
  /// device. All must outlive the executor; `schedule` is copied. Every rank of the run makes its
  /// executors in the same order. Throws ScheduleError for an invalid schedule, and
  /// std::invalid_argument where ranks or models are not as many as it asks for.
  PipelineExecutor(Endpoint endpoint, const Group& group, const Schedule& schedule,
                   std::vector<Gpt*> stages);

  /// Forward and backward of all microbatches, which must be as many as the schedule's; gradients
  /// are added to what is there. Returns the batch's mean loss on the rank of the last stage,
  /// nothing elsewhere. The bits are those of accumulate_gradients on the whole model.
  std::optional<double> step(const Batch& batch);

 private:
  using Message = MessagePlan::Message;

  /// A buffer, which outlives the Work that uses it.
  struct InFlight {
    Tensor data;
    Work work;
  };
  /// One direction of one kind between this rank and a peer.
  struct Incoming {
    Channel* channel = nullptr;
    int from = 0;            ///< the peer, as numbered in the whole run
    std::size_t posted = 0;  ///< how many of the step's messages have been asked for
    std::map<Message, InFlight> in_flight;
  };

  Channel& channel(int peer, bool forward);
  void post_receives(Incoming& incoming, const std::vector<Message>& expected, std::size_t count,
                     Shape shape);
  Tensor take_input(std::size_t i, Shape shape);
  void send_output(std::size_t i, Tensor data);
  void let_go(const std::vector<Message>& messages);
  Tensor run(const Action& action, Tensor input, const Batch& batch);
  Gpt& model(int stage);

  Endpoint endpoint_;
  Schedule schedule_;
  int rank_;
  std::vector<int> world_ranks_;
  MessagePlan plan_;
  std::map<int, Gpt*> stages_;
  std::map<std::pair<int, bool>, Channel> channels_;
  std::map<std::pair<int, bool>, Incoming> incoming_;
  std::map<Message, InFlight> sent_;
  std::map<Message, Tensor> local_;               ///< between two stages of this rank
  std::map<std::pair<int, int>, Stash> stashes_;  ///< by stage and microbatch
  double loss_ = 0;
};

}  // namespace lockstep
