#pragma once

#include <cstdint>

namespace lockstep {

/// The kind of a span, written as `cat` in the trace.
enum class Category : std::uint8_t {
  forward,
  backward,         ///< the full backward pass, i.e. both halves below
  backward_input,   ///< the gradient of the input only
  backward_weight,  ///< the gradient of the parameters only
  recompute,
  optimizer,
  communication,
  wait,
  step,
  kernel,
  // Only in traces that other tools wrote:
  copy,  ///< a copy or a memset on the device, which is neither compute nor communication
  host,  ///< code of the host, while a device computes
};
constexpr int category_count = 12;
const char* name_of(Category category);
/// Returns PyTorch's letter for a pipeline action: F, B, I (input) or W (weight). Returns R for
/// recompute, and '\0' for other categories.
char letter_of(Category category);
/// Returns whether a device computes during a span of this category.
bool computes(Category category);

}  // namespace lockstep
