#include "kernels/cuda/attention.h"

#include <fmt/format.h>

#include <cmath>
#include <initializer_list>
#include <stdexcept>

#include "kernels/cpu/check.h"
#include "kernels/cuda/attention_problem.cuh"
#include "kernels/cuda/check.h"

namespace lockstep::cuda {
namespace {

using cpu::Named;

/// Whether 16 bytes can be taken at once from every head's rows.
bool aligned(std::initializer_list<View> views, int d) {
  for (const View& view : views) {
    const auto bytes = static_cast<std::int64_t>(size_of(view.dtype));
    if (reinterpret_cast<std::uintptr_t>(view.data) % 16 != 0 || d * bytes % 16 != 0 ||
        view.row_stride * bytes % 16 != 0 || d % 8 != 0)
      return false;
  }
  return true;
}

/// Refuses what does not fit; `views` are all the others of shape (b, s, h).
Problem problem(const char* kernel, Named q, std::initializer_list<Named> views, int heads) {
  const Shape& shape = q.view.shape;
  for (const Named& named : views) {
    cpu::want(kernel, shape.rank() == 3 && named.view.shape == shape, named, q,
              "both must be (b, s, h)");
    cpu::want(kernel, named.view.dtype == q.view.dtype && is_floating(q.view.dtype), named, q,
              "both must be of one type, f32, bf16 or f16");
  }
  const std::int64_t h = shape.last();
  if (heads < 1 || h % heads != 0)
    throw std::invalid_argument(
        fmt::format("{}: {} heads do not divide the {} columns of q", kernel, heads, h));
  const std::int64_t d = h / heads;
  if (d > widest_head)
    throw std::invalid_argument(fmt::format(
        "{}: heads of {} columns; on CUDA a head has at most {} (more heads, or --device cpu)",
        kernel, d, widest_head));
  Problem n{};
  n.s = static_cast<int>(shape[1]);
  n.d = static_cast<int>(d);
  n.heads = heads;
  n.matrices = static_cast<int>(shape[0]) * heads;
  n.scale = 1.0F / std::sqrt(static_cast<float>(d));
  return n;
}

void want_lse(const char* kernel, Named lse, Named q, int heads) {
  const Shape& shape = q.view.shape;
  cpu::want_contiguous(kernel, {lse});
  cpu::want(kernel, lse.view.shape == Shape{shape[0], heads, shape[1]}, lse, q,
            "lse must be (b, heads, s)");
}

/// Whether there are any.
bool want_probabilities(const char* kernel, Named probabilities, Named q, int heads) {
  if (probabilities.view.elements() == 0) return false;
  const Shape& shape = q.view.shape;
  cpu::want_contiguous(kernel, {probabilities});
  cpu::want(kernel, probabilities.view.shape == Shape{shape[0], heads, shape[1], shape[1]},
            probabilities, q, "probabilities must be (b, heads, s, s)");
  return true;
}

}  // namespace

void attention_forward(Queue queue, View q, View k, View v, int heads, View y, View lse,
                       View probabilities) {
  const char* const kernel = "attention_forward";
  Problem n = problem(kernel, {"q", q}, {{"k", k}, {"v", v}, {"y", y}}, heads);
  want_lse(kernel, {"lse", lse}, {"q", q}, heads);
  const bool keep = want_probabilities(kernel, {"probabilities", probabilities}, {"q", q}, heads);
  if (q.elements() == 0) return;
  n.vectors = aligned({q, k, v, y}, n.d);
  const bool narrow = is_narrow(q.dtype);
  (narrow ? attention_forward_narrow : attention_forward_f32)(queue, n, q, k, v, y, lse);
  if (keep)
    (narrow ? attention_probabilities_narrow : attention_probabilities_f32)(queue, n, q, k, lse,
                                                                            probabilities);
}

void attention_backward(Queue queue, View dy, View q, View k, View v, View y, View lse,
                        View probabilities, int heads, View dq, View dk, View dv) {
  const char* const kernel = "attention_backward";
  Problem n = problem(
      kernel, {"q", q},
      {{"k", k}, {"v", v}, {"y", y}, {"dy", dy}, {"dq", dq}, {"dk", dk}, {"dv", dv}}, heads);
  const bool kept = want_probabilities(kernel, {"probabilities", probabilities}, {"q", q}, heads);
  if (!kept) want_lse(kernel, {"lse", lse}, {"q", q}, heads);
  if (q.elements() == 0) return;
  n.vectors = aligned({q, k, v, y, dy, dq, dk, dv}, n.d);
  const Scratch<float> dots(queue,
                            static_cast<std::size_t>(n.matrices) * static_cast<std::size_t>(n.s));
  attention_dots(queue, n, dy, y, dots.data());
  (is_narrow(q.dtype) ? attention_backward_narrow : attention_backward_f32)(
      queue, n, dy, q, k, v, lse, probabilities, dots.data(), dq, dk, dv);
}

}  // namespace lockstep::cuda
