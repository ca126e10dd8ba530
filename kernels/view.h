#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <stdexcept>

namespace lockstep {

/// Element types. The 16-bit types `bf16` (8 exponent bits, 7 fraction bits: the range of f32) and
/// `f16` (IEEE 754 binary16: 5 exponent bits, 10 fraction bits) are for storage; arithmetic is in
/// f32. `i32` holds token indices.
enum class DType : std::uint8_t { f32, bf16, i32, f16 };

constexpr bool is_narrow(DType dtype) {
  return dtype == DType::bf16 || dtype == DType::f16;
}
constexpr bool is_floating(DType dtype) {
  return dtype != DType::i32;
}
constexpr std::size_t size_of(DType dtype) {
  return is_narrow(dtype) ? 2 : 4;
}
constexpr const char* name_of(DType dtype) {
  constexpr const char* names[] = {"f32", "bf16", "i32", "f16"};
  return names[static_cast<std::size_t>(dtype)];
}

/// Up to four dimensions, outermost first: (b, s, h) is Shape{b, s, h}. A Shape without dimensions
/// has no elements.
class Shape {
 public:
  static constexpr int max_rank = 4;

  Shape() = default;
  Shape(std::initializer_list<std::int64_t> extents) {
    if (extents.size() > max_rank) throw std::invalid_argument("a shape has at most 4 extents");
    for (std::int64_t extent : extents) extents_[static_cast<std::size_t>(rank_++)] = extent;
  }

  int rank() const { return rank_; }
  std::int64_t operator[](int i) const { return extents_[static_cast<std::size_t>(i)]; }
  std::int64_t last() const { return rank_ == 0 ? 0 : (*this)[rank_ - 1]; }
  /// Returns the number of rows after flattening all dimensions except the last: b * s for (b, s,
  /// h).
  std::int64_t rows() const { return last() == 0 ? 0 : elements() / last(); }
  std::int64_t elements() const {
    if (rank_ == 0) return 0;
    std::int64_t product = 1;
    for (int i = 0; i < rank_; ++i) product *= (*this)[i];
    return product;
  }
  bool operator==(const Shape&) const = default;

 private:
  std::array<std::int64_t, max_rank> extents_{};
  int rank_ = 0;
};

/// A non-owning view of elements in row-major order. `row_stride` is the distance, in elements,
/// between consecutive rows (a row is the last dimension), so a View can select some columns of a
/// wider matrix.
struct View {
  void* data = nullptr;
  Shape shape;
  DType dtype = DType::f32;
  std::int64_t row_stride = 0;

  View() = default;
  View(void* data_, Shape shape_, DType dtype_ = DType::f32)
      : data(data_), shape(shape_), dtype(dtype_), row_stride(shape_.last()) {}

  float* f32() const { return static_cast<float*>(data); }
  /// Returns 16-bit elements (bf16 or f16) as bit patterns.
  std::uint16_t* u16() const { return static_cast<std::uint16_t*>(data); }
  std::int32_t* i32() const { return static_cast<std::int32_t*>(data); }
  std::int64_t elements() const { return shape.elements(); }
  std::size_t bytes() const { return static_cast<std::size_t>(elements()) * size_of(dtype); }
  /// A single row is contiguous whatever its stride, so a slice of a flat buffer is contiguous.
  bool contiguous() const { return row_stride == shape.last() || shape.rows() <= 1; }
  explicit operator bool() const { return data != nullptr; }

  /// Returns a view of columns [first, first + count) of every row.
  View columns(std::int64_t first, std::int64_t count) const;
  /// Returns a view of the same elements with another shape. Throws std::invalid_argument unless
  /// the view is contiguous and `to` has the same number of elements.
  View reshaped(Shape to) const;
};

inline View View::columns(std::int64_t first, std::int64_t count) const {
  View part = *this;
  part.data = data
                  ? static_cast<std::byte*>(data) + static_cast<std::size_t>(first) * size_of(dtype)
                  : nullptr;
  switch (shape.rank()) {
    case 1:
      part.shape = Shape{count};
      break;
    case 2:
      part.shape = Shape{shape[0], count};
      break;
    case 3:
      part.shape = Shape{shape[0], shape[1], count};
      break;
    default:
      part.shape = Shape{shape[0], shape[1], shape[2], count};
      break;
  }
  return part;
}

inline View View::reshaped(Shape to) const {
  if (!contiguous() || to.elements() != shape.elements())
    throw std::invalid_argument(
        "reshaped: needs a contiguous view and a shape of as many elements");
  return View{data, to, dtype};
}

}  // namespace lockstep
