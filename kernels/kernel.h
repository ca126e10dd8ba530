#pragma once

/// The types that kernels.h uses to declare kernels. An argument's type states how the kernel
/// accesses the argument. Code that treats all kernels alike relies on these types to convert
/// 16-bit arguments on the CPU, to count memory traffic, and, in tests, to copy arguments to a GPU.

#include <concepts>
#include <functional>
#include <vector>

#include "kernels/view.h"

namespace lockstep {

/// The queue on which a kernel runs. On the CPU, kernels run synchronously on the calling thread
/// and ignore the queue. On a GPU `handle` is a cudaStream_t, and the call returns once the kernel
/// is enqueued.
struct Queue {
  void* handle = nullptr;
};

/// A function that an implementation provides, such as Kernel<void(Queue, In x, Out y)>.
template <class Signature>
using Kernel = std::function<Signature>;

enum class Access { read, write, read_write };
enum class ElementType { floating, f32, i32 };

/// A view passed to a kernel. Any View converts to it implicitly.
template <Access access, ElementType type>
struct Argument : View {
  using View::View;
  Argument() = default;
  Argument(const std::convertible_to<View> auto& view) : View(view) {}
};

// Views of f32, bf16 or f16.
using In = Argument<Access::read, ElementType::floating>;
using Out = Argument<Access::write, ElementType::floating>;
using InOut = Argument<Access::read_write, ElementType::floating>;
// Views of f32 only.
using In32 = Argument<Access::read, ElementType::f32>;
using Out32 = Argument<Access::write, ElementType::f32>;
using InOut32 = Argument<Access::read_write, ElementType::f32>;
// Views of i32: tokens, targets, or indices of rows and experts.
using Indices = Argument<Access::read, ElementType::i32>;
using OutIndices = Argument<Access::write, ElementType::i32>;

/// Several views for one call, such as all gradients of a model. A GPU processes them with a few
/// launches, however many they are.
using Ins = std::vector<In>;
/// The same for views that the call overwrites. One view converts to it implicitly.
struct Outs : std::vector<Out> {
  using std::vector<Out>::vector;
  Outs(const std::convertible_to<View> auto& only) : std::vector<Out>{only} {}
};

}  // namespace lockstep
