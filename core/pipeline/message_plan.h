#pragma once

#include <compare>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <tuple>
#include <vector>

#include "core/base/span.h"
#include "core/pipeline/schedule.h"

namespace lockstep {

/// All messages of one pipeline rank, and the memory that their buffers need, computed from the
/// schedule alone. PipelineExecutor and the predictions both follow this plan, so they always
/// agree. The policy:
///
/// - The first receive of each channel is posted at the start of the step. A channel's next receive
///   is posted as soon as none of the channel's receives is open (posted, but not used yet), and at
///   the latest just before the message is needed. A channel's receives are posted in the order in
///   which the peer sends.
/// - Sends do not block. A sent buffer is released as soon as this rank receives an input that the
///   peer produced after using the message: that input proves that the message arrived. Memory use
///   therefore does not depend on timing.
class MessagePlan {
 public:
  /// Identifies one of this rank's channels. A rank has two channels with each peer: one for
  /// activations and one for gradients.
  struct ChannelKey {
    int peer = 0;         ///< pipeline rank
    bool forward = true;  ///< activations; false for gradients
    auto operator<=>(const ChannelKey&) const = default;
  };

  /// An activation or gradient sent to a stage. Ranks are pipeline ranks.
  struct Message {
    int from_rank = 0;
    int to_rank = 0;
    int stage = 0;  ///< the stage that uses it
    int microbatch = 0;
    bool forward = true;  ///< an activation; false for a gradient

    /// Returns whether both stages are on one rank, which then passes the tensor on without sending
    /// it.
    bool local() const { return from_rank == to_rank; }
    /// Returns the stage that produces the message.
    int producer() const { return stage + (forward ? -1 : 1); }
    Payload payload() const { return forward ? Payload::activations : Payload::gradients; }
    /// These functions name the message's tensor in memory reports.
    const char* kind() const { return forward ? "activations in flight" : "gradients in flight"; }
    const char* kind_once_received() const {
      return forward ? "stage input" : "gradients of activations";
    }
    bool operator==(const Message&) const = default;
    /// Returns the receiver's and the sender's channel for the message.
    ChannelKey receive_channel() const { return {from_rank, forward}; }
    ChannelKey send_channel() const { return {to_rank, forward}; }
    /// Orders messages by their contents, which identify a message within a step.
    bool operator<(const Message& other) const {
      return std::tie(stage, microbatch, forward) <
             std::tie(other.stage, other.microbatch, other.forward);
    }
  };

  /// The messages of one action, in this order: post the receives in `post_before`, wait for
  /// `input`, release the sent messages in `release`, post the receive in `post_after`, run the
  /// action, send `output`. A joined pair takes both inputs before it runs the first action, and
  /// sends both outputs after it has run the second.
  struct Around {
    std::vector<Message> post_before;
    std::optional<Message> input;  ///< from another rank, or from another stage of this rank
    std::vector<Message> release;  ///< in sending order
    std::optional<Message> post_after;
    std::optional<Message> output;  ///< for another rank, or for another stage of this rank
  };

  /// A channel that carries messages, and its directions.
  struct ChannelUse {
    ChannelKey key;
    bool sends = false;
    bool receives = false;
  };

  /// Computes the plan of `rank`. `schedule` must be valid (see validate()). Takes time linear in
  /// the number of actions of this rank and of the ranks that it exchanges messages with.
  MessagePlan(const Schedule& schedule, int rank);

  /// Returns the receives posted at the start of a step.
  const std::vector<Message>& post_first() const { return post_first_; }
  /// Returns the messages of action i of this rank.
  const Around& around(std::size_t i) const { return around_[i]; }
  /// Returns the channels that carry messages, by peer, activations before gradients.
  const std::vector<ChannelUse>& channels() const { return channels_; }

  /// Returns the number of messages that this rank sends to other ranks per step.
  std::int64_t messages_sent() const { return messages_sent_; }
  /// Returns the peak number of buffers in flight: receives posted but not yet used, plus sends not
  /// yet released.
  std::int64_t peak_buffers() const { return peak_buffers_; }

 private:
  class Builder;

  std::vector<Message> post_first_;
  std::vector<Around> around_;
  std::vector<ChannelUse> channels_;
  std::int64_t messages_sent_ = 0;
  std::int64_t peak_buffers_ = 0;
};

}  // namespace lockstep
