/// bf16 and f16 on the CPU. Each f32 kernel is wrapped in one that converts 16-bit arguments to
/// f32, calls the f32 kernel, and rounds the results. The types of a kernel's arguments (kernel.h)
/// state which arguments may be 16-bit, and whether the kernel reads or writes each argument.
///
/// A kernel that processes rows independently runs on blocks of rows, so that the converted
/// elements stay in the L1 and L2 caches.

#include <algorithm>
#include <array>
#include <cstddef>
#include <memory>
#include <type_traits>

#include "kernels/cpu/cpu_kernels.h"
#include "kernels/every_kernel.h"

namespace lockstep::cpu {
namespace {

using Convert = decltype(Kernels::convert);

template <class T>
bool narrow(const T&) {
  return false;
}
template <Access access>
bool narrow(const Argument<access, ElementType::floating>& view) {
  return is_narrow(view.dtype);
}

/// Converts the 16-bit arguments of one call (at most `most`) to f32, and converts the results
/// back.
template <std::size_t most>
class Widened {
 public:
  explicit Widened(const Convert& convert) : convert_(convert) {}

  /// Returns f32 memory in place of a 16-bit view, filled with the view's elements if the kernel
  /// reads them. An f32 view is returned unchanged.
  template <Access access>
  View f32(const Argument<access, ElementType::floating>& view) {
    if (!is_narrow(view.dtype)) return view;
    View wide = view;
    wide.dtype = DType::f32;
    // The f32 kernel reports missing memory and overlapping rows.
    if (view.data == nullptr || view.elements() == 0 || view.row_stride < view.shape.last())
      return wide;
    // The copy keeps the row stride, so that the f32 kernel still rejects a view that is not
    // contiguous but must be.
    const std::int64_t rows = view.shape.rows();
    const std::int64_t elements = (rows - 1) * view.row_stride + view.shape.last();
    auto& memory = memory_.at(taken_++);
    memory = std::make_unique_for_overwrite<float[]>(static_cast<std::size_t>(elements));
    wide.data = memory.get();
    if (access != Access::write) convert_({}, view, wide);
    if (access != Access::read) {
      results_.at(written_) = wide;
      targets_.at(written_++) = view;
    }
    return wide;
  }
  AdamWTensor f32(const AdamWTensor& tensor) {
    return {f32(tensor.parameter), f32(tensor.gradient), tensor.momentum, tensor.variance,
            f32(tensor.rounded)};
  }
  /// Returns any other argument unchanged.
  template <class T>
  const T& f32(const T& argument) {
    return argument;
  }

  /// Rounds the results into the 16-bit views. Call this after the f32 kernel.
  void round() const {
    for (std::size_t i = 0; i < written_; ++i) convert_({}, results_[i], targets_[i]);
  }

 private:
  const Convert& convert_;
  std::array<std::unique_ptr<float[]>, most> memory_;
  std::array<View, most> results_, targets_;
  std::size_t taken_ = 0, written_ = 0;
};

template <class Result, class... Arguments>
Kernel<Result(Queue, Arguments...)> with_narrow_types(
    const Kernel<Result(Queue, Arguments...)>& f32, const Convert& convert) {
  return [f32, convert](Queue queue, const Arguments&... arguments) {
    if (!(narrow(arguments) || ...)) return f32(queue, arguments...);
    Widened<sizeof...(Arguments)> widened{convert};
    if constexpr (std::is_void_v<Result>) {
      f32(queue, widened.f32(arguments)...);
      widened.round();
    } else {
      return f32(queue, widened.f32(arguments)...);
    }
  };
}

/// As above, for kernels that take several views. Converts one view at a time, so that the f32
/// copies of all gradients never exist together.
Kernel<void(Queue, Ins, Out32)> with_narrow_types(const Kernel<void(Queue, Ins, Out32)>& f32,
                                                  const Convert& convert) {
  return [f32, convert](Queue queue, const Ins& xs, Out32 sums) {
    if (std::none_of(xs.begin(), xs.end(), narrow<Access::read>)) return f32(queue, xs, sums);
    for (std::size_t i = 0; i < xs.size(); ++i) {
      Widened<1> widened{convert};
      f32(queue, {widened.f32(xs[i])}, View{static_cast<double*>(sums.data) + i, {1, 2}});
    }
  };
}

Kernel<void(Queue, Outs, float)> with_narrow_types(const Kernel<void(Queue, Outs, float)>& f32,
                                                   const Convert& convert) {
  return [f32, convert](Queue queue, const Outs& xs, float value) {
    for (const Out& x : xs) {
      Widened<1> widened{convert};
      f32(queue, widened.f32(x), value);
      widened.round();
    }
  };
}

Kernel<void(Queue, std::vector<AdamWTensor>, const AdamWStep&)> with_narrow_types(
    const Kernel<void(Queue, std::vector<AdamWTensor>, const AdamWStep&)>& f32,
    const Convert& convert) {
  return
      [f32, convert](Queue queue, const std::vector<AdamWTensor>& tensors, const AdamWStep& step) {
        for (const AdamWTensor& tensor : tensors) {
          Widened<3> widened{convert};
          f32(queue, {widened.f32(tensor)}, step);
          widened.round();
        }
      };
}

/// The f32 elements in a block of rows: 32 KiB per argument.
constexpr std::int64_t block_elements = 8192;

/// Returns rows [first, first + count) of a matrix or of a statistic that has one element per row.
/// Returns a vector that has one element per column, such as a gain, unchanged.
template <Access access, ElementType type>
Argument<access, type> rows_of(Argument<access, type> argument, std::int64_t first,
                               std::int64_t count) {
  constexpr bool per_row = type == ElementType::f32;
  if (!per_row && argument.shape.rank() < 2) return argument;
  const std::int64_t offset = per_row ? first : first * argument.row_stride;
  argument.shape = per_row ? Shape{count} : Shape{count, argument.shape.last()};
  argument.data = static_cast<std::byte*>(argument.data) +
                  static_cast<std::size_t>(offset) * size_of(argument.dtype);
  return argument;
}

/// Returns a number unchanged.
float rows_of(float number, std::int64_t, std::int64_t) {
  return number;
}

/// Returns whether an argument has a valid shape for a kernel that processes `rows` rows: a matrix
/// with that many rows, a statistic with one element per row, or a vector with one element per
/// column.
template <Access access, ElementType type>
bool fits(const Argument<access, type>& argument, std::int64_t rows) {
  const std::int64_t mine = type == ElementType::f32 ? argument.elements() : argument.shape.rows();
  const bool columns = type != ElementType::f32 && argument.shape.rank() < 2;
  return argument.data != nullptr && (columns || mine == rows);
}

bool fits(float, std::int64_t) {
  return true;
}

/// Wraps a kernel that processes rows independently, so that it runs on blocks of rows.
template <class First, class... Others>
Kernel<void(Queue, First, Others...)> by_rows(const Kernel<void(Queue, First, Others...)>& kernel) {
  return [kernel](Queue queue, const First& x, const Others&... others) {
    const std::int64_t rows = x.shape.rows();
    const std::int64_t block = block_elements / std::max<std::int64_t>(x.shape.last(), 1);
    const bool any_narrow = (narrow(x) || ... || narrow(others));
    // If an argument doesn't fit, passes all arguments in full, so that the kernel's error names
    // their shapes.
    const bool all_fit = x.shape.rank() >= 2 && (fits(x, rows) && ... && fits(others, rows));
    if (!any_narrow || !all_fit || block < 1) return kernel(queue, x, others...);
    for (std::int64_t first = 0; first < rows; first += block) {
      const std::int64_t count = std::min(block, rows - first);
      kernel(queue, rows_of(x, first, count), rows_of(others, first, count)...);
    }
  };
}

}  // namespace

Kernels with_narrow_types(const Kernels& f32) {
  Kernels kernels;
  for_each_kernel([&](const char*, auto kernel) {
    kernels.*kernel = with_narrow_types(f32.*kernel, f32.convert);
  });
  kernels.gelu_forward = by_rows(kernels.gelu_forward);
  kernels.gelu_backward = by_rows(kernels.gelu_backward);
  kernels.swiglu_forward = by_rows(kernels.swiglu_forward);
  kernels.swiglu_backward = by_rows(kernels.swiglu_backward);
  kernels.add = by_rows(kernels.add);
  kernels.layernorm_forward = by_rows(kernels.layernorm_forward);
  kernels.layernorm_backward_input = by_rows(kernels.layernorm_backward_input);
  kernels.rmsnorm_forward = by_rows(kernels.rmsnorm_forward);
  kernels.rmsnorm_backward_input = by_rows(kernels.rmsnorm_backward_input);
  // These kernels accept every type.
  kernels.copy = f32.copy;
  kernels.convert = f32.convert;
  kernels.attention_forward = f32.attention_forward;
  kernels.attention_backward = f32.attention_backward;
  kernels.attention_block_forward = f32.attention_block_forward;
  kernels.attention_block_backward = f32.attention_block_backward;
  return kernels;
}

}  // namespace lockstep::cpu
