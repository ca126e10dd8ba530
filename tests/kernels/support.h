#pragma once

/// Utilities for the kernel tests: arrays that detect stray writes, random numbers, and relative
/// errors in the 2-norm.

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
#include <optional>
#include <random>
#include <vector>

#include "kernels/kernels.h"
#include "tests/kernels/oracle.h"
#include "tests/kernels/oracle_attention.h"

namespace lockstep::testing {

using oracle::Doubles;

inline constexpr float not_a_number = std::numeric_limits<float>::quiet_NaN();
inline constexpr float infinity = std::numeric_limits<float>::infinity();

/// Returns the number of elements n in the type that an array expects.
inline std::size_t size(std::int64_t n) {
  return static_cast<std::size_t>(n);
}

/// Random numbers from a fixed seed.
class Random {
 public:
  explicit Random(std::uint64_t seed) : generator_(seed) {}
  float normal(float deviation = 1.0F) {
    return std::normal_distribution<float>(0.0F, deviation)(generator_);
  }
  std::int64_t between(std::int64_t first, std::int64_t last) {
    return std::uniform_int_distribution<std::int64_t>(first, last)(generator_);
  }

 private:
  std::mt19937_64 generator_;
};

/// Rows and columns of floats inside a larger array that is initially all NaN. A kernel that reads
/// an output, or an element outside the view, spreads NaN; `untouched` detects stray writes.
/// `offset` shifts the start off any alignment, and `gap` elements separate consecutive rows.
class Array {
 public:
  /// Without an offset, rows that are a multiple of 32 bytes apart begin at multiples of 16 bytes,
  /// for which a GPU has kernels of its own; all others begin one element later.
  explicit Array(Shape shape, std::int64_t gap = 0, std::optional<std::int64_t> offset = {})
      : shape_(shape),
        rows_(shape.rows()),
        columns_(shape.last()),
        offset_(offset.value_or((shape.last() + gap) % 8 == 0 ? 0 : 1)),
        stride_(shape.last() + gap),
        storage_(static_cast<std::size_t>(offset_ + rows_ * stride_ + 16), not_a_number) {}

  /// Returns a View to pass to a kernel, which may write to it even if this Array is const.
  View view() const {
    View view{const_cast<float*>(storage_.data()) + offset_, shape_};
    view.row_stride = stride_;
    return view;
  }
  operator View() const { return view(); }

  float& operator[](std::int64_t i) {
    return storage_[static_cast<std::size_t>(offset_ + i / columns_ * stride_ + i % columns_)];
  }
  float operator[](std::int64_t i) const { return const_cast<Array&>(*this)[i]; }
  std::int64_t elements() const { return rows_ * columns_; }

  Array& randomize(Random& random, float deviation = 1.0F) {
    for (std::int64_t i = 0; i < elements(); ++i) (*this)[i] = random.normal(deviation);
    return *this;
  }
  Array& set(float value) {
    for (std::int64_t i = 0; i < elements(); ++i) (*this)[i] = value;
    return *this;
  }
  Array& set(const Array& other) {
    for (std::int64_t i = 0; i < elements(); ++i) (*this)[i] = other[i];
    return *this;
  }

  Doubles doubles() const {
    Doubles result;
    for (std::int64_t i = 0; i < elements(); ++i) result.push_back((*this)[i]);
    return result;
  }

  /// Returns whether all elements outside the view are still NaN.
  bool untouched() const {
    std::vector<bool> inside(storage_.size(), false);
    for (std::int64_t r = 0; r < rows_; ++r)
      for (std::int64_t c = 0; c < columns_; ++c)
        inside[static_cast<std::size_t>(offset_ + r * stride_ + c)] = true;
    for (std::size_t i = 0; i < storage_.size(); ++i)
      if (!inside[i] && !std::isnan(storage_[i])) return false;
    return true;
  }

 private:
  Shape shape_;
  std::int64_t rows_, columns_, offset_, stride_;
  std::vector<float> storage_;
};

/// Returns ‖a − b‖₂ / ‖b‖₂, or +∞ if a contains a NaN or a kernel wrote outside the view.
inline double error(const Array& a, const Doubles& b) {
  if (!a.untouched() || static_cast<std::size_t>(a.elements()) != b.size()) return infinity;
  double difference = 0.0, norm = 0.0;
  for (std::int64_t i = 0; i < a.elements(); ++i) {
    const double want = b[static_cast<std::size_t>(i)];
    difference += (a[i] - want) * (a[i] - want);
    norm += want * want;
  }
  if (std::isnan(difference)) return infinity;
  return norm == 0.0 ? std::sqrt(difference) : std::sqrt(difference / norm);
}

/// Returns a + b, the expected value of an accumulated gradient.
inline Doubles plus(const Doubles& a, const Doubles& b) {
  Doubles sum = a;
  for (std::size_t i = 0; i < sum.size(); ++i) sum[i] += b[i];
  return sum;
}

/// Returns whether a and b are bitwise identical, including NaN.
inline bool same_bits(const Array& a, const Array& b) {
  if (a.elements() != b.elements()) return false;
  for (std::int64_t i = 0; i < a.elements(); ++i) {
    const float left = a[i], right = b[i];
    if (std::memcmp(&left, &right, sizeof left) != 0) return false;
  }
  return true;
}

/// Returns a random divisor of n, such as a number of groups of n heads.
inline std::int64_t random_divisor(Random& random, std::int64_t n) {
  std::int64_t divisor = random.between(1, n);
  while (n % divisor != 0) --divisor;
  return divisor;
}

inline std::vector<std::int32_t> random_indices(Random& random, std::int64_t count,
                                                std::int64_t limit) {
  std::vector<std::int32_t> result;
  for (std::int64_t i = 0; i < count; ++i)
    result.push_back(static_cast<std::int32_t>(random.between(0, limit - 1)));
  return result;
}

inline View indices(std::vector<std::int32_t>& values, Shape shape) {
  return View{values.data(), shape, DType::i32};
}

/// Divides a vocabulary among `ranks` ranks with `rows` rows each; the last rows may be padding.
inline std::vector<VocabularyPart> vocabulary_parts(std::int64_t vocabulary, std::int64_t ranks,
                                                    std::int64_t& rows) {
  rows = (vocabulary + ranks - 1) / ranks;
  std::vector<VocabularyPart> parts;
  for (std::int64_t rank = 0; rank < ranks; ++rank) {
    const std::int64_t first = std::min(vocabulary, rank * rows);
    parts.push_back({first, std::min(rows, vocabulary - first)});
  }
  return parts;
}

inline constexpr double tolerance = 1e-5;

/// The kernels that this program tests.
const Kernels& kernels();
/// Returns whether these are the CPU kernels, which make two more guarantees: a token outside the
/// vocabulary throws, and the results of a kernel on 16-bit elements are bitwise identical to those
/// of the f32 kernel, rounded once.
bool on_cpu();

/// Runs a kernel that reduces each view to a double.
inline std::vector<double> sums_of(Kernel<void(Queue, Ins, Out32)> Kernels::*kernel,
                                   const Ins& xs) {
  std::vector<double> sums(xs.size(), -1.0);
  (kernels().*kernel)({}, xs, View{sums.data(), {static_cast<std::int64_t>(xs.size()), 2}});
  return sums;
}
inline double sum_of(Kernel<void(Queue, Ins, Out32)> Kernels::*kernel, const View& x) {
  return sums_of(kernel, {x}).front();
}

}  // namespace lockstep::testing
