#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <tuple>
#include <vector>

#include "core/pipeline/schedule.h"

namespace lockstep {

/// Every message of one pipeline rank, and the memory that its messages take, computed from the
/// schedule alone. PipelineExecutor follows the plan, and predictions read it, so both agree by
/// construction. The policy:
///
/// - The first receive of each lane is posted at the start of the step. A lane's next receive is
///   posted as soon as none of its receives is open, or, at the latest, just before its message is
///   needed. A lane's receives are posted in the order in which the peer sends.
/// - Sends do not block. A sent buffer is released as soon as an input from its receiver proves its
///   arrival: the receiver used it before it produced that input. Memory therefore does not depend
///   on timing.
class MessagePlan {
 public:
  /// An activation or a gradient on its way into a stage. Ranks are pipeline ranks.
  struct Message {
    int from_rank = 0;
    int to_rank = 0;
    int stage = 0;  ///< the stage that uses it
    int microbatch = 0;
    bool forward = true;  ///< an activation; false for a gradient

    /// True between two stages of one rank: the tensor is handed over, and nothing is sent.
    bool local() const { return from_rank == to_rank; }
    /// The stage that produces it.
    int producer() const { return stage + (forward ? -1 : 1); }
    bool operator==(const Message&) const = default;
    /// Orders messages by their contents, which identify a message within a step.
    bool operator<(const Message& other) const {
      return std::tie(stage, microbatch, forward) <
             std::tie(other.stage, other.microbatch, other.forward);
    }
  };

  /// The messages around one action, in this order: the receives in `post_before` are posted, the
  /// rank waits for `input`, the sent messages in `release` are released, the receive in
  /// `post_after` is posted, the action runs, `output` is sent.
  struct Around {
    std::vector<Message> post_before;
    std::optional<Message> input;  ///< from another rank or another stage of this one
    std::vector<Message> release;  ///< in the order in which they were sent
    std::optional<Message> post_after;
    std::optional<Message> output;  ///< for another rank or another stage of this one
  };

  /// One kind of message between this rank and a peer, in both directions.
  struct Lane {
    int peer = 0;         ///< pipeline rank
    bool forward = true;  ///< activations; false for gradients
    bool sends = false;
    bool receives = false;
  };

  /// The plan of `rank`. `schedule` must be valid (validate()). Takes time proportional to the
  /// actions of this rank and of the ranks that it exchanges messages with.
  MessagePlan(const Schedule& schedule, int rank);

  /// The receives posted at the start of a step.
  const std::vector<Message>& post_first() const { return post_first_; }
  /// The messages around action i of this rank.
  const Around& around(std::size_t i) const { return around_[i]; }
  /// The lanes that carry any message, by peer, activations before gradients.
  const std::vector<Lane>& lanes() const { return lanes_; }

  /// Messages that this rank sends to other ranks in one step.
  std::int64_t messages_sent() const { return messages_sent_; }
  /// The highest number of buffers in flight at once: receives that are posted and not yet used,
  /// and sends that are not yet released.
  std::int64_t peak_buffers() const { return peak_buffers_; }

 private:
  class Builder;

  std::vector<Message> post_first_;
  std::vector<Around> around_;
  std::vector<Lane> lanes_;
  std::int64_t messages_sent_ = 0;
  std::int64_t peak_buffers_ = 0;
};

}  // namespace lockstep
