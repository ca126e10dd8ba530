/// Elementwise kernels. All are memory-bound: add moves 3 n elements, gelu forward 2 n, gelu
/// backward 3 n, and SwiGLU, with n elements in y, forward 3 n and backward 5 n. `ivdep` tells the
/// compiler that an output either is one of the inputs or does not overlap them, so the loop needs
/// no test for overlap.

#include <algorithm>
#include <cstring>

#include "kernels/arguments.h"
#include "kernels/cpu/cpu_kernels.h"
#include "kernels/element.h"

namespace lockstep::cpu {
namespace {

void gelu_forward(Queue, In x, Out y) {
  const std::int64_t n = arguments::gelu_forward(x, y);
  const float* const in = x.f32();
  float* const out = y.f32();
#pragma GCC ivdep
  for (std::int64_t i = 0; i < n; ++i) out[i] = element::gelu(in[i]);
}

void gelu_backward(Queue, In x, In dy, Out dx) {
  const std::int64_t n = arguments::gelu_backward(x, dy, dx);
  const float* const in = x.f32();
  const float* const up = dy.f32();
  float* const out = dx.f32();
#pragma GCC ivdep
  for (std::int64_t i = 0; i < n; ++i) out[i] = up[i] * element::gelu_derivative(in[i]);
}

void swiglu_forward(Queue, In x, Out y) {
  const arguments::Matrix n = arguments::swiglu_forward(x, y);
  for (std::int64_t row = 0; row < n.rows; ++row) {
    const float* const gate = x.f32() + row * 2 * n.columns;
    const float* const up = gate + n.columns;
    float* const out = y.f32() + row * n.columns;
#pragma GCC ivdep
    for (std::int64_t i = 0; i < n.columns; ++i) out[i] = element::silu(gate[i]) * up[i];
  }
}

void swiglu_backward(Queue, In x, In dy, Out dx) {
  const arguments::Matrix n = arguments::swiglu_backward(x, dy, dx);
  for (std::int64_t row = 0; row < n.rows; ++row) {
    const float* const gate = x.f32() + row * 2 * n.columns;
    const float* const up = gate + n.columns;
    const float* const d = dy.f32() + row * n.columns;
    float* const dgate = dx.f32() + row * 2 * n.columns;
    float* const dup = dgate + n.columns;
#pragma GCC ivdep  // dx may be x: each element is read before it is overwritten
    for (std::int64_t i = 0; i < n.columns; ++i) {
      const float z = gate[i];
      dgate[i] = d[i] * up[i] * element::silu_derivative(z);
      dup[i] = d[i] * element::silu(z);
    }
  }
}

void add(Queue, In a, In b, Out y) {
  const std::int64_t n = arguments::add(a, b, y);
  const float* const left = a.f32();
  const float* const right = b.f32();
  float* const out = y.f32();
#pragma GCC ivdep
  for (std::int64_t i = 0; i < n; ++i) out[i] = left[i] + right[i];
}

void scale(Queue, InOut x, float factor) {
  const std::int64_t n = arguments::one_view("scale", x);
  float* const data = x.f32();
  for (std::int64_t i = 0; i < n; ++i) data[i] *= factor;
}

void fill(Queue, const Outs& xs, float value) {
  for (const Out& x : xs) std::fill_n(x.f32(), arguments::one_view("fill", x), value);
}

void copy(Queue, In from, Out to) {
  arguments::copy(from, to);
  const std::size_t element = size_of(from.dtype);
  const auto bytes = [element](std::int64_t n) { return static_cast<std::size_t>(n) * element; };
  const auto* source = static_cast<const std::byte*>(from.data);
  auto* target = static_cast<std::byte*>(to.data);
  if (from.elements() == 0) return;
  if (from.contiguous() && to.contiguous()) {
    std::memcpy(target, source, from.bytes());
    return;
  }
  for (std::int64_t row = 0; row < from.shape.rows(); ++row)
    std::memcpy(target + bytes(row * to.row_stride), source + bytes(row * from.row_stride),
                bytes(from.shape.last()));
}

/// Writes round(widen(x)) for each element x, row by row.
template <class From, class To, class Widen, class Round>
void convert_rows(View from, View to, Widen widen, Round round) {
  const std::int64_t columns = from.shape.last();
  for (std::int64_t row = 0; row < from.shape.rows(); ++row) {
    const From* const in = static_cast<const From*>(from.data) + row * from.row_stride;
    To* const out = static_cast<To*>(to.data) + row * to.row_stride;
#pragma GCC ivdep
    for (std::int64_t i = 0; i < columns; ++i) out[i] = round(widen(in[i]));
  }
}

template <class From, class Widen>
void convert_from(View from, View to, Widen widen) {
  switch (to.dtype) {
    case DType::f32:
      return convert_rows<From, float>(from, to, widen, [](float x) { return x; });
    case DType::bf16:
      return convert_rows<From, std::uint16_t>(from, to, widen,
                                               [](float x) { return element::to_bf16(x); });
    default:
      return convert_rows<From, std::uint16_t>(from, to, widen,
                                               [](float x) { return element::to_f16(x); });
  }
}

}  // namespace

void convert(Queue queue, In from, Out to) {
  if (from.dtype == to.dtype) return copy(queue, from, to);
  arguments::convert(from, to);
  switch (from.dtype) {
    case DType::f32:
      return convert_from<float>(from, to, [](float x) { return x; });
    case DType::bf16:
      return convert_from<std::uint16_t>(from, to,
                                         [](std::uint16_t x) { return element::from_bf16(x); });
    default:
      return convert_from<std::uint16_t>(from, to,
                                         [](std::uint16_t x) { return element::from_f16(x); });
  }
}

void set_elementwise(Kernels& kernels) {
  kernels.gelu_forward = gelu_forward;
  kernels.gelu_backward = gelu_backward;
  kernels.swiglu_forward = swiglu_forward;
  kernels.swiglu_backward = swiglu_backward;
  kernels.add = add;
  kernels.scale = scale;
  kernels.fill = fill;
  kernels.copy = copy;
  kernels.convert = convert;
}

}  // namespace lockstep::cpu
