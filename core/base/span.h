#pragma once

#include <cstdint>

#include "core/base/category.h"

namespace lockstep {

/// A span's relation to a message. A message has one id, which the trace shows at both ends: on the
/// span that sends the message, on the one that receives it, and on the waits for either.
enum class MessageRole : std::uint8_t { none, sends, receives };

/// The contents of a message between the stages of a pipeline.
enum class Payload : std::uint8_t {
  other,
  activations,  ///< the result of a forward pass, for the next stage's
  gradients,    ///< the result of a backward pass (or of its input half), for the previous stage's
};

/// A span's name and attributes: plain data that is cheap to pass. Strings must live as long as the
/// trace (so they are literals, or come from Recorder::keep); -1 means "does not apply". The trace
/// shows pipeline actions (forward, backward... with a stage) as PP:{stage}{F|B|I|W}{microbatch},
/// regardless of `name`.
struct Span {
  const char* name = "";
  Category category = Category::kernel;
  int step = -1;   ///< training step; -1: the recorder's current step. A worker sets the step in
                   ///< which its work was issued
  int stage = -1;  ///< at most 32767, as is `layer`
  int microbatch = -1;
  int layer = -1;
  int peer = -1;
  std::int64_t bytes = -1;
  std::int64_t sequence = -1;  ///< number of a group's collective, on every member; below 2^31
  const char* group = nullptr;
  int group_size = -1;
  const char* algorithm = nullptr;
  std::uint64_t message = 0;  ///< id of the message, if `role` is not none; below 2^52
  /// Of a communication span: whether it sends or receives `message`; of a wait, which of the two
  /// it waits for.
  MessageRole role = MessageRole::none;
  Payload payload = Payload::other;  ///< of a message between stages
  double flops = -1;                 ///< of a kernel
};

}  // namespace lockstep
