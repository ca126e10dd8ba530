#pragma once

#include <cstdint>

namespace lockstep {

/// The kind of a span; the trace's `cat`.
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
/// Returns PyTorch's letter for a pipeline action: F, B, I (input), W (weight); R for recompute.
/// '\0' for other categories.
char letter_of(Category category);

/// The name and the attributes of a span. Plain data that is cheap to pass: strings must live as
/// long as the trace (literals, or Recorder::keep), and -1 means "does not apply". Pipeline actions
/// (forward, backward... with a stage) are written as PP:{stage}{F|B|I|W}{microbatch}, whatever
/// `name` is.
struct Span {
  const char* name = "";
  Category category = Category::kernel;
  int step = -1;  ///< training step; -1: the recorder's current step. A worker sets the step in
                  ///< which its work was issued
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
