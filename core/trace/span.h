#pragma once

#include <cstdint>

namespace lockstep {

/// What a span is; the trace's `cat`.
enum class Category : std::uint8_t {
  forward,
  backward,         ///< both halves
  backward_input,   ///< the gradient of the input only
  backward_weight,  ///< the gradient of the parameters only
  recompute,
  optimizer,
  communication,
  wait,
  step,
  kernel,
};
constexpr int category_count = 10;
const char* name_of(Category category);
/// As PyTorch's pipelining abbreviates actions: F, B, I (input), W (weight); R for recompute. '\0'
/// for what is no action.
char letter_of(Category category);

/// What a stretch of work is called, and what is known of it. Plain data that costs nothing to
/// pass: strings live as long as the trace (literals, or
/// Recorder::keep), and -1 means "does not apply". Pipeline actions (forward,
/// backward... with a stage) are named PP:{stage}{F|B|I|W}{microbatch} when written, whatever
/// `name` is.
struct Span {
  const char* name = "";
  Category category = Category::kernel;
  int step = -1;  ///< the training step; -1: the one that the recorder is in. A worker gives that
                  ///< of where its work was issued
  int stage = -1;
  int microbatch = -1;
  int layer = -1;
  int peer = -1;
  std::int64_t bytes = -1;
  std::int64_t sequence = -1;
  const char* group = nullptr;
  int group_size = -1;
  const char* algorithm = nullptr;
};

}  // namespace lockstep
