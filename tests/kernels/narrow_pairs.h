#pragma once

/// Compares a kernel on 16-bit elements with the same kernel on f32 elements.

#include <cmath>
#include <cstdint>
#include <functional>
#include <vector>

#include "kernels/cpu/gemm.h"
#include "kernels/element.h"
#include "tests/kernels/support.h"

namespace lockstep::testing {

inline const DType narrow_types[] = {DType::bf16, DType::f16};

inline float widened(DType dtype, std::uint16_t bits) {
  return dtype == DType::bf16 ? element::from_bf16(bits) : element::from_f16(bits);
}
inline std::uint16_t rounded(DType dtype, float value) {
  return dtype == DType::bf16 ? element::to_bf16(value) : element::to_f16(value);
}

/// The same elements in f32 and, rounded, in a 16-bit type. After a kernel has run on both, the
/// 16-bit elements should equal the rounded f32 elements. Kernels must not change the gaps between
/// rows.
struct Pair {
  Pair(DType dtype_, Shape shape_, Random& random, std::int64_t gap = 0)
      : dtype(dtype_), shape(shape_), stride(shape.last() + gap) {
    const auto count = static_cast<std::size_t>(shape.rows() * stride);
    for (std::size_t i = 0; i < count; ++i) {
      narrow.push_back(rounded(dtype, random.normal(0.5F)));
      wide.push_back(widened(dtype, narrow.back()));
    }
  }

  View view(bool as_narrow) {
    View result{as_narrow ? static_cast<void*>(narrow.data()) : wide.data(), shape,
                as_narrow ? dtype : DType::f32};
    result.row_stride = stride;
    return result;
  }
  /// Returns the number of elements that differ, including those between the rows. If the kernels
  /// for the two types may add in different orders, returns 1 if the elements differ by more than 1
  /// % in norm, otherwise 0.
  int wrong(bool same_order) const {
    int count = 0;
    double difference = 0.0, norm = 0.0;
    if (!same_order) {
      for (std::size_t i = 0; i < wide.size(); ++i) {
        const bool between = static_cast<std::int64_t>(i) % stride >= shape.last();
        count += between && narrow[i] != rounded(dtype, wide[i]);
        difference += std::pow(widened(dtype, narrow[i]) - wide[i], 2);
        norm += std::pow(wide[i], 2);
      }
      return count + !(std::sqrt(difference) <= 1e-2 * std::sqrt(norm));
    }
    for (std::size_t i = 0; i < wide.size(); ++i) count += narrow[i] != rounded(dtype, wide[i]);
    return count;
  }

  DType dtype;
  Shape shape;
  std::int64_t stride;
  std::vector<std::uint16_t> narrow;
  std::vector<float> wide;
};

/// Calls `kernel` on the 16-bit views and on the f32 views; returns the number of wrong elements. A
/// GPU's matrix products, and a CPU's in bf16 if `product`, add in a different order for each type.
inline int wrong_after(std::vector<Pair> pairs,
                       const std::function<void(const std::vector<View>&)>& kernel,
                       bool product = false) {
  const bool same_order =
      on_cpu() && !(product && pairs[0].dtype == DType::bf16 && cpu::multiplies_bf16());
  for (const bool as_narrow : {true, false}) {
    std::vector<View> views;
    for (Pair& pair : pairs) views.push_back(pair.view(as_narrow));
    kernel(views);
  }
  int wrong = 0;
  for (const Pair& pair : pairs) wrong += pair.wrong(same_order);
  return wrong;
}

}  // namespace lockstep::testing
