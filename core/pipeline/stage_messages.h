#pragma once

#include <map>
#include <vector>

#include "core/comm/channel.h"
#include "core/comm/group.h"
#include "core/pipeline/message_plan.h"
#include "core/pipeline/schedule.h"
#include "core/plan/boundary.h"

namespace lockstep {

/// The messages between a rank's stages and the other stages of a pipeline: posts receives, sends
/// results, and releases buffers, as the MessagePlan of a schedule says. Buffers in flight are
/// charged to MemoryCategory::communication; all other tensors passed between stages are charged to
/// activations.
///
/// For the rank's actions i = 0, 1, ..., call before(i), run the action with the input that it
/// returns, and pass its result to after(i). Call begin() before the first action and end() after
/// the last; then the same schedule can run again.
class StageMessages {
 public:
  /// `group` holds the pipeline's ranks in the order of the schedule's ranks. `boundary` describes
  /// the tensor that passes between two stages for each microbatch. All ranks of the run must
  /// create their StageMessages in the same order. The schedule must be valid (validate()).
  StageMessages(Endpoint endpoint, const Group& group, const Schedule& schedule, Boundary boundary);

  /// Posts the first receives.
  void begin();
  /// Handles the messages that precede action i, and returns the action's input, which is empty if
  /// it comes from no other stage.
  Tensor before(std::size_t i);
  /// Passes the result of action i on to the stage that needs it, if any does.
  void after(std::size_t i, Tensor output);
  /// Waits until the buffers of all sent messages may be released, and releases them.
  void end();

 private:
  using Message = MessagePlan::Message;

  /// A buffer and the Work that uses it; the buffer is destroyed after the Work.
  struct InFlight {
    Tensor data;
    Work work;
  };

  /// Disconnects the channels of activations and gradients at the end, so that the next pipeline
  /// needs no further connections.
  struct Connected {
    Transport& transport;
    int activations, gradients;
    Connected(Transport& transport_, int first)
        : transport(transport_), activations(first), gradients(first + 1) {}
    ~Connected() {
      transport.disconnect(activations);
      transport.disconnect(gradients);
    }
    Connected(const Connected&) = delete;
    Connected& operator=(const Connected&) = delete;
  };

  void post_receive(const Message& message);
  Tensor take(const Message& message);
  void send(const Message& message, Tensor data);
  void release(const Message& message);

  Endpoint endpoint_;
  Boundary boundary_;
  std::vector<int> world_ranks_;
  MessagePlan plan_;
  Connected connected_;
  std::map<MessagePlan::ChannelKey, Channel> channels_;
  std::map<Message, InFlight> received_;  ///< posted, but not used yet
  std::map<Message, InFlight> sent_;      ///< not released yet
  std::map<Message, Tensor> local_;       ///< passed between two stages on this rank
};

}  // namespace lockstep
