#pragma once

/// Calls of a GPU's attention, with tensors of any type at any distance, and their oracle.

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <initializer_list>
#include <string>
#include <vector>

#include "kernels/element.h"
#include "tests/kernels/support.h"

namespace lockstep::testing {

/// Rows of a (b, s, h) tensor of any type, initially all NaN; Array is its counterpart for f32. The
/// first element lies `offset` elements past a multiple of 16 bytes.
class Elements {
 public:
  Elements(DType dtype, Shape shape, std::int64_t gap, std::int64_t offset)
      : dtype_(dtype), shape_(shape), stride_(shape.last() + gap), offset_(offset) {
    memory_.resize(static_cast<std::size_t>((offset + shape.rows() * stride_) / 4 + 8));
    poison();
  }
  View view() {
    View view{reinterpret_cast<std::byte*>(memory_.data()) +
                  static_cast<std::size_t>(offset_) * size_of(dtype_),
              shape_, dtype_};
    view.row_stride = stride_;
    return view;
  }
  void poison() { std::fill(memory_.begin(), memory_.end(), Sixteen{}); }

  double get(std::int64_t i) const {
    const std::size_t at = place(i);
    const auto* const words = reinterpret_cast<const std::uint16_t*>(memory_.data());
    if (dtype_ == DType::f32) return reinterpret_cast<const float*>(memory_.data())[at];
    return dtype_ == DType::bf16 ? element::from_bf16(words[at]) : element::from_f16(words[at]);
  }
  void set(std::int64_t i, float value) {
    const std::size_t at = place(i);
    auto* const words = reinterpret_cast<std::uint16_t*>(memory_.data());
    if (dtype_ == DType::f32)
      reinterpret_cast<float*>(memory_.data())[at] = value;
    else
      words[at] = dtype_ == DType::bf16 ? element::to_bf16(value) : element::to_f16(value);
  }
  Elements& randomize(Random& random, float deviation = 1.0F) {
    for (std::int64_t i = 0; i < shape_.elements(); ++i) set(i, random.normal(deviation));
    return *this;
  }
  Doubles doubles() const {
    Doubles result;
    for (std::int64_t i = 0; i < shape_.elements(); ++i) result.push_back(get(i));
    return result;
  }
  /// Whether everything outside the rows still has its initial value.
  bool untouched() const {
    Elements copy = *this;
    const auto bytes = size_of(dtype_);
    for (std::int64_t i = 0; i < shape_.elements(); ++i)
      std::memset(reinterpret_cast<std::byte*>(copy.memory_.data()) + place(i) * bytes, 0xff,
                  bytes);
    const Sixteen poison;
    return std::all_of(copy.memory_.begin(), copy.memory_.end(), [&](const Sixteen& piece) {
      return std::memcmp(&piece, &poison, sizeof piece) == 0;
    });
  }

 private:
  struct alignas(16) Sixteen {
    Sixteen() { std::fill(std::begin(bytes), std::end(bytes), 0xff); }
    unsigned char bytes[16];
  };
  std::size_t place(std::int64_t i) const {
    return static_cast<std::size_t>(offset_ + i / shape_.last() * stride_ + i % shape_.last());
  }
  DType dtype_;
  Shape shape_;
  std::int64_t stride_, offset_;
  std::vector<Sixteen> memory_;
};

/// ‖a − b‖₂ / ‖b‖₂; +∞ for NaN and for stray writes.
inline double error(const Elements& a, const Doubles& want) {
  const Doubles got = a.doubles();
  double difference = 0.0, norm = 0.0;
  for (std::size_t i = 0; i < want.size(); ++i) {
    difference += (got[i] - want[i]) * (got[i] - want[i]);
    norm += want[i] * want[i];
  }
  if (std::isnan(difference) || !a.untouched()) return infinity;
  return norm == 0.0 ? std::sqrt(difference) : std::sqrt(difference / norm);
}

/// The inputs and outputs of one call. k and v have as many heads as there are groups.
struct Attention {
  oracle::Heads n;
  DType dtype;
  Elements q, k, v, y, dy, dq, dk, dv;
  Array lse, probabilities;

  Attention(oracle::Heads n_, DType dtype_, Random& random, std::int64_t gap = 0,
            std::int64_t offset = 0, float deviation = 1.0F)
      : n(n_),
        dtype(dtype_),
        q(dtype, shape(), gap, offset),
        k(dtype, key_shape(), gap, offset),
        v(dtype, key_shape(), gap, offset),
        y(dtype, shape(), gap, offset),
        dy(dtype, shape(), gap, offset),
        dq(dtype, shape(), gap, offset),
        dk(dtype, key_shape(), gap, offset),
        dv(dtype, key_shape(), gap, offset),
        lse({whole(n.b), whole(n.heads), whole(n.s)}),
        probabilities({whole(n.b), whole(n.heads), whole(n.s), whole(n.s)}) {
    q.randomize(random, deviation), k.randomize(random, deviation);
    v.randomize(random), dy.randomize(random);
  }
  static std::int64_t whole(std::size_t x) { return static_cast<std::int64_t>(x); }
  Shape shape() const { return {whole(n.b), whole(n.s), whole(n.h)}; }
  Shape key_shape() const { return {whole(n.b), whole(n.s), whole(n.groups * n.d())}; }
  int heads() const { return static_cast<int>(n.heads); }
  void forward(bool keep = false) {
    kernels().attention_forward({}, q.view(), k.view(), v.view(), heads(), y.view(), lse,
                                keep ? probabilities.view() : View{});
  }
  void backward(bool kept = false) {
    kernels().attention_backward({}, dy.view(), q.view(), k.view(), v.view(), y.view(),
                                 kept ? View{} : lse.view(), kept ? probabilities.view() : View{},
                                 heads(), dq.view(), dk.view(), dv.view());
  }
  /// Returns all results for bitwise comparison (NaN differs from itself).
  Doubles results() const {
    Doubles all = lse.doubles();
    for (const Elements* part : {&y, &dq, &dk, &dv}) {
      const Doubles numbers = part->doubles();
      all.insert(all.end(), numbers.begin(), numbers.end());
    }
    return all;
  }
};

inline std::size_t pick(Random& random, std::initializer_list<std::size_t> from) {
  return *(from.begin() + random.between(0, static_cast<std::int64_t>(from.size()) - 1));
}

inline oracle::Heads random_heads(Random& random, std::size_t s) {
  const std::size_t heads = pick(random, {1, 2, 3});
  const std::size_t d = pick(random, {5, 10, 16, 24, 32, 64, 80, 96, 128});
  return {.b = pick(random, {1, 2}), .s = s, .h = heads * d, .heads = heads};
}
/// Returns sizes with fewer heads of k and v than of q.
inline oracle::Heads random_groups(Random& random, std::size_t s) {
  const std::size_t groups = pick(random, {1, 2}), heads = groups * pick(random, {2, 3});
  const std::size_t d = pick(random, {5, 16, 32, 64, 80, 128});
  return {.b = pick(random, {1, 2}), .s = s, .h = heads * d, .heads = heads, .groups = groups};
}

inline std::string named(const Attention& t) {
  return std::string(name_of(t.dtype)) + " b " + std::to_string(t.n.b) + ", s " +
         std::to_string(t.n.s) + ", heads " + std::to_string(t.n.heads) + ", groups " +
         std::to_string(t.n.groups) + ", d " + std::to_string(t.n.d());
}

/// Returns the largest error() that is allowed. With only two or three keys, dP and Σ dy * y nearly
/// cancel, which amplifies the rounding of y to 8 bits.
inline double allowed(const Attention& t) {
  if (t.dtype == DType::f32) return 1e-5;
  return t.n.s < 8 ? 3e-2 : 1e-2;
}

/// Returns the largest error() of any result.
inline double largest_error(Attention& t) {
  const auto want = oracle::attention(t.q.doubles(), t.k.doubles(), t.v.doubles(), t.n);
  const auto gradients =
      oracle::attention_backward(t.q.doubles(), t.k.doubles(), t.v.doubles(), t.dy.doubles(), t.n);
  double worst =
      std::max({error(t.y, want.y), testing::error(t.lse, want.lse), error(t.dv, gradients.dv)});
  // A single position attends only to itself: dq and dk are zero except for rounding errors.
  if (t.n.s > 1) worst = std::max({worst, error(t.dq, gradients.dq), error(t.dk, gradients.dk)});
  return worst;
}

}  // namespace lockstep::testing
