#pragma once

/// Rows that begin at multiples of 16 bytes, which cuBLASLt's fast kernels need.

#include <cstdint>
#include <optional>

#include "kernels/cuda/check.h"
#include "kernels/kernels.h"

namespace lockstep::cuda {

using Copy = decltype(Kernels::copy);

inline constexpr std::int64_t alignment = 16;  ///< bytes

/// Returns the smallest row stride, in elements, that aligns every row of `columns` elements.
inline std::int64_t aligned_stride(std::int64_t columns, DType dtype) {
  const std::int64_t step = alignment / static_cast<std::int64_t>(size_of(dtype));
  return (columns + step - 1) / step * step;
}

inline bool aligned(const View& view) {
  const auto bytes = static_cast<std::uintptr_t>(view.row_stride) * size_of(view.dtype);
  return reinterpret_cast<std::uintptr_t>(view.data) % alignment == 0 &&
         (bytes % alignment == 0 || view.shape.rows() <= 1);
}

/// Holds the given view if it is aligned, or else an aligned copy.
class Aligned {
 public:
  Aligned(const Copy& copy, Queue queue, const View& view, bool filled)
      : copy_(copy), queue_(queue), original_(view), view_(view) {
    if (aligned(view)) return;
    view_ = View{nullptr, {view.shape.rows(), view.shape.last()}, view.dtype};
    view_.row_stride = aligned_stride(view.shape.last(), view.dtype);
    memory_.emplace(queue, static_cast<std::size_t>(view_.shape.rows() * view_.row_stride) *
                               size_of(view.dtype));
    view_.data = memory_->data();
    if (filled) copy_(queue_, original_, view_);
  }

  const View& view() const { return view_; }
  /// Copies the result back to the original view, if a copy was used.
  void copy_back() const {
    if (memory_) copy_(queue_, view_, original_);
  }

 private:
  const Copy& copy_;
  Queue queue_;
  View original_, view_;
  std::optional<Scratch<std::byte>> memory_;
};

}  // namespace lockstep::cuda
