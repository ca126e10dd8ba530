#pragma once

#include <cstdint>

#include "core/base/span.h"
#include "core/time/time.h"

namespace lockstep {

/// The id of an interned string of a Timeline; 0 is the empty string.
using NameId = std::uint32_t;

/// A span as read from a trace. Missing numbers are -1, and missing strings are "".
struct TimelineSpan {
  Picoseconds start = 0;
  Picoseconds end = 0;
  std::int64_t bytes = -1;
  NameId name = 0;
  int step = -1;
  int stage = -1;
  int microbatch = -1;
  int peer = -1;
  int sequence = -1;
  NameId group = 0;
  int group_size = -1;
  std::int16_t layer = -1;
  std::uint16_t algorithm = 0;  ///< a NameId, or 0 if the id does not fit
  Category category = Category::kernel;
  MessageRole role = MessageRole::none;  ///< of a wait: which end of a message it waits for
  Payload payload = Payload::other;      ///< of a message between stages
  /// The id of the message that it sends, receives or waits for; 0: unknown.
  std::uint64_t message = 0;

  Picoseconds duration() const { return end - start; }
  bool sends() const { return role == MessageRole::sends; }
  bool receives() const { return role == MessageRole::receives; }
  /// Whether the span is a pipeline action: the forward pass, the backward pass, either half of the
  /// backward pass, or the recomputation of one microbatch on one stage.
  bool is_action() const { return stage >= 0 && category <= Category::recompute; }
  /// Whether it is a message between stages, or a wait for one.
  bool is_between_stages() const { return role != MessageRole::none && group == 0 && stage >= 0; }
};

}  // namespace lockstep
