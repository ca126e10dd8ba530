#pragma once

#include <cstdint>

#include "core/base/category.h"
#include "core/operations/collective.h"
#include "core/time/time.h"

namespace lockstep {

/// An operation of a rank, without its time: a plain value with the shapes and costs that determine
/// how long it takes. A rank's program is a list of these, in the order in which its own thread
/// issued them. Members that a kind does not use keep their defaults, so that equal operations are
/// equal values. Strings are literals, or belong to the RunOperations that hold the operation.
struct RecordedOperation {
  enum class Kind : std::uint8_t {
    kernel,      ///< takes the time of `cost` on the compute stream
    begin,       ///< of a range, such as a pipeline action
    end,         ///< of the innermost range
    send,        ///< issued at the stream's current time; see Channel
    receive,     ///< the same
    collective,  ///< issued at the stream's current time; see Group
    wait,        ///< for an earlier send, receive or collective of this rank
    together,    ///< all ranks continue at the latest rank's time
  };

  Kind kind = Kind::kernel;
  /// The category of a range or, for a kernel, of the range around it.
  Category category = Category::kernel;
  const char* name = "";  ///< of a kernel or a range
  int stage = -1;         ///< of a range, a kernel inside it, or the producer of a message
  int microbatch = -1;    ///< of a range or a message
  int layer = -1;         ///< of a kernel
  Cost cost{};            ///< of a kernel

  // Of a message.
  int stream = -1;   ///< numbers this rank's Channels; their messages stay in order
  int channel = -1;  ///< Transport's number; with the two ranks, it matches sends and receives
  int peer = 0;      ///< the other rank minus this one, so that ranks of one stage have equal lists
  std::int64_t bytes = 0;
  const char* axis = "";  ///< the group's name, or that of the pipeline's axis

  // Of a collective.
  int group = -1;  ///< index in the rank's groups
  Collective collective{};

  /// For a wait: how many messages and collectives back it refers; 1 for the one issued last.
  std::int64_t back = 0;

  /// Whether the rank can wait for the operation.
  bool is_issued() const {
    return kind == Kind::send || kind == Kind::receive || kind == Kind::collective;
  }
  /// Compares strings by address.
  bool operator==(const RecordedOperation&) const = default;
};

}  // namespace lockstep
