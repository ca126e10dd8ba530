/// Checks arguments and launches the kernels for Hopper, as kernels/cuda/attention.cpp does for
/// those in use.

#include "tests/gpu/variants/attention_hopper.h"

#include <stdexcept>

#include "kernels/arguments.h"
#include "kernels/cuda/check.h"

namespace lockstep::cuda::hopper {
namespace {

Problem problem(const arguments::Attention& n, std::initializer_list<View> views) {
  bool vectors = n.d % 8 == 0;
  for (const View& view : views) {
    if (view.dtype != DType::bf16 || n.d > widest_head)
      throw std::invalid_argument("attention for Hopper: bf16, and heads of at most 128 columns");
    vectors = vectors && view.row_stride % 8 == 0 &&
              reinterpret_cast<std::uintptr_t>(view.data) % 16 == 0;
  }
  return {static_cast<int>(n.s),
          static_cast<int>(n.d),
          static_cast<int>(n.heads),
          static_cast<int>(n.b * n.heads),
          n.scale,
          vectors,
          static_cast<int>(n.heads / n.groups)};
}

}  // namespace

void use_attention(Kernels& kernels, bool causal, int groups) {
  kernels.attention_forward = [=](Queue queue, In q, In k, In v, int heads, Out y, Out32 lse,
                                  Out32 probabilities) {
    const auto sizes = arguments::attention_forward(q, k, v, heads, y, lse, probabilities);
    if (sizes.probabilities) throw std::invalid_argument("this variant keeps no probabilities");
    launch_forward(causal, groups, queue, problem(sizes, {q, k, v, y}), q, k, v, y, lse);
  };
  kernels.attention_backward = [=](Queue queue, In dy, In q, In k, In v, In y, In32 lse,
                                   In32 probabilities, int heads, Out dq, Out dk, Out dv) {
    const auto sizes =
        arguments::attention_backward(dy, q, k, v, y, lse, probabilities, heads, dq, dk, dv);
    if (sizes.probabilities) throw std::invalid_argument("this variant keeps no probabilities");
    const Problem n = problem(sizes, {dy, q, k, v, y, dq, dk, dv});
    const Scratch<float> dots(queue,
                              static_cast<std::size_t>(n.matrices) * static_cast<std::size_t>(n.s));
    attention_dots(queue, n, dy, y, dots.data());
    launch_backward(causal, groups, queue, n, dy, q, k, v, lse, dots.data(), dq, dk, dv);
  };
}

}  // namespace lockstep::cuda::hopper
