#include <doctest/doctest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "kernels/element.h"
#include "tests/kernels/support.h"
#include "tests/support/portion.h"

// Compares a GPU's attention with the oracle for 16-bit types and for sizes around the tile sizes,
// and tests which results must be bitwise identical. The emulator draws a different order of
// threads for each kernel, so results that are bitwise identical on the emulator do not depend on
// that order.

using namespace lockstep;
using namespace lockstep::testing;

namespace {

const DType types[] = {DType::f32, DType::bf16, DType::f16};

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
double error(const Elements& a, const Doubles& want) {
  const Doubles got = a.doubles();
  double difference = 0.0, norm = 0.0;
  for (std::size_t i = 0; i < want.size(); ++i) {
    difference += (got[i] - want[i]) * (got[i] - want[i]);
    norm += want[i] * want[i];
  }
  if (std::isnan(difference) || !a.untouched()) return infinity;
  return norm == 0.0 ? std::sqrt(difference) : std::sqrt(difference / norm);
}

/// The inputs and outputs of one call. q, k and v are columns of one tensor whose rows have 3 h +
/// gap elements.
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
        k(dtype, shape(), gap, offset),
        v(dtype, shape(), gap, offset),
        y(dtype, shape(), gap, offset),
        dy(dtype, shape(), gap, offset),
        dq(dtype, shape(), gap, offset),
        dk(dtype, shape(), gap, offset),
        dv(dtype, shape(), gap, offset),
        lse({whole(n.b), whole(n.heads), whole(n.s)}),
        probabilities({whole(n.b), whole(n.heads), whole(n.s), whole(n.s)}) {
    q.randomize(random, deviation), k.randomize(random, deviation);
    v.randomize(random), dy.randomize(random);
  }
  static std::int64_t whole(std::size_t x) { return static_cast<std::int64_t>(x); }
  Shape shape() const { return {whole(n.b), whole(n.s), whole(n.h)}; }
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

std::size_t pick(Random& random, std::initializer_list<std::size_t> from) {
  return *(from.begin() + random.between(0, static_cast<std::int64_t>(from.size()) - 1));
}

oracle::Heads random_heads(Random& random, std::size_t s) {
  const std::size_t heads = pick(random, {1, 2, 3});
  const std::size_t d = pick(random, {5, 10, 16, 24, 32, 64, 80, 96, 128});
  return {.b = pick(random, {1, 2}), .s = s, .h = heads * d, .heads = heads};
}

std::string named(const Attention& t) {
  return std::string(name_of(t.dtype)) + " b " + std::to_string(t.n.b) + ", s " +
         std::to_string(t.n.s) + ", heads " + std::to_string(t.n.heads) + ", d " +
         std::to_string(t.n.d());
}

/// Returns the largest error() that is allowed. With only two or three keys, dP and Σ dy * y nearly
/// cancel, which amplifies the rounding of y to 8 bits.
double allowed(const Attention& t) {
  if (t.dtype == DType::f32) return 1e-5;
  return t.n.s < 8 ? 3e-2 : 1e-2;
}

/// Returns the largest error() of any result.
double largest_error(Attention& t) {
  const auto want = oracle::attention(t.q.doubles(), t.k.doubles(), t.v.doubles(), t.n);
  const auto gradients =
      oracle::attention_backward(t.q.doubles(), t.k.doubles(), t.v.doubles(), t.dy.doubles(), t.n);
  double worst =
      std::max({error(t.y, want.y), testing::error(t.lse, want.lse), error(t.dv, gradients.dv)});
  // A single position attends only to itself: dq and dk are zero except for rounding errors.
  if (t.n.s > 1) worst = std::max({worst, error(t.dq, gradients.dq), error(t.dk, gradients.dk)});
  return worst;
}

}  // namespace

TEST_CASE("attention on a GPU, for sizes around the tile sizes, in every type") {
  Random random{40};
  double worst[4] = {};
  const std::vector<std::size_t> sizes{65, 1, 16, 130, 17, 2, 15, 63, 64, 100, 128};
  for (const std::size_t s : portion(sizes, 5))
    for (const DType dtype : types)
      for (const std::int64_t gap : {0, 8, 3}) {
        Attention t{random_heads(random, s), dtype, random, gap, gap == 3 ? 1 : 0};
        const std::string what = named(t);
        CAPTURE(what);
        t.forward();
        t.backward();
        const double error = largest_error(t);
        CHECK(error < allowed(t));
        auto& largest = worst[static_cast<std::size_t>(dtype)];
        if (s >= 8) largest = std::max(largest, error);
      }
  MESSAGE("largest errors in norm: f32 " << worst[0] << ", bf16 " << worst[1] << ", f16 "
                                         << worst[3]);
}

TEST_CASE("each head size, with slightly more than one tile of keys") {
  Random random{41};
  for (const std::size_t d : {1U, 5U, 10U, 16U, 24U, 32U, 48U, 64U, 80U, 96U, 112U, 128U})
    for (const DType dtype : types) {
      Attention t{{.b = 1, .s = 70, .h = 2 * d, .heads = 2}, dtype, random};
      const std::string what = named(t);
      CAPTURE(what);
      t.forward();
      t.backward();
      CHECK(largest_error(t) < allowed(t));
    }
}

TEST_CASE("the same bits wherever the views lie, whatever the order of threads") {
  Random random{42};
  for (const DType dtype : types)
    for (const std::size_t d : portion(std::vector<std::size_t>{64, 128, 16}, 1)) {
      const oracle::Heads n{.b = 2, .s = 140, .h = 2 * d, .heads = 2};
      Attention aligned{n, dtype, random};
      aligned.forward();
      aligned.backward();
      for (const std::int64_t gap : {1, 16}) {
        Attention apart{n, dtype, random, gap, gap == 1 ? 3 : 8};
        for (std::int64_t i = 0; i < apart.shape().elements(); ++i) {
          apart.q.set(i, static_cast<float>(aligned.q.get(i)));
          apart.k.set(i, static_cast<float>(aligned.k.get(i)));
          apart.v.set(i, static_cast<float>(aligned.v.get(i)));
          apart.dy.set(i, static_cast<float>(aligned.dy.get(i)));
        }
        apart.forward();
        apart.backward();
        CHECK(apart.results() == aligned.results());
      }
    }
}

TEST_CASE("a sequence's bits do not depend on the batch that it is in") {
  Random random{43};
  for (const DType dtype : types) {
    // The batch has more heads than one group of blocks covers, so its groups of blocks differ from
    // those of a single sequence.
    const oracle::Heads n{.b = 12, .s = 70, .h = 48, .heads = 3};
    Attention all{n, dtype, random};
    all.forward();
    all.backward();
    const std::int64_t each = 70 * 48;
    for (const std::int64_t sequence : {0, 7, 11}) {
      Attention one{{.b = 1, .s = 70, .h = 48, .heads = 3}, dtype, random};
      for (std::int64_t i = 0; i < each; ++i) {
        one.q.set(i, static_cast<float>(all.q.get(sequence * each + i)));
        one.k.set(i, static_cast<float>(all.k.get(sequence * each + i)));
        one.v.set(i, static_cast<float>(all.v.get(sequence * each + i)));
        one.dy.set(i, static_cast<float>(all.dy.get(sequence * each + i)));
      }
      one.forward();
      one.backward();
      int wrong = 0;
      for (std::int64_t i = 0; i < each; ++i) {
        wrong += one.y.get(i) != all.y.get(sequence * each + i);
        wrong += one.dq.get(i) != all.dq.get(sequence * each + i);
        wrong += one.dk.get(i) != all.dk.get(sequence * each + i);
        wrong += one.dv.get(i) != all.dv.get(sequence * each + i);
      }
      CHECK(wrong == 0);
    }
  }
}

TEST_CASE("kept probabilities are the softmax, and backward has the same bits with or without") {
  Random random{44};
  for (const DType dtype : types)
    for (const std::size_t s : portion(std::vector<std::size_t>{130, 33, 1, 64}, 2)) {
      Attention t{random_heads(random, s), dtype, random, 0, 0, 2.0F};
      const std::string what = named(t);
      CAPTURE(what);
      t.forward();
      t.backward();
      Attention kept = t;
      for (Elements* output : {&kept.y, &kept.dq, &kept.dk, &kept.dv}) output->poison();
      kept.forward(true);
      kept.backward(true);
      CHECK(kept.results() == t.results());

      std::vector<double> lse(s);
      double wrong = 0.0;
      for (std::size_t matrix = 0; matrix < t.n.b * t.n.heads; ++matrix) {
        const auto want = oracle::probabilities(t.q.doubles(), t.k.doubles(), t.n,
                                                matrix / t.n.heads, matrix % t.n.heads, lse.data());
        for (std::size_t i = 0; i < s * s; ++i) {
          const float got = kept.probabilities[Attention::whole(matrix * s * s + i)];
          wrong = std::max(wrong, std::isnan(got) ? 1.0 : std::abs(got - want[i]));
          if (i % s > i / s && got != 0.0F) wrong = 1.0;
        }
      }
      CHECK(wrong < 1e-5);
      CHECK(kept.probabilities.untouched());
    }
}

TEST_CASE("attention on a GPU is causal: what comes later changes no earlier row, to the bit") {
  Random random{45};
  for (const DType dtype : types) {
    Attention t{{.b = 1, .s = 150, .h = 64, .heads = 2}, dtype, random};
    t.forward();
    const Doubles before = t.y.doubles();
    for (std::int64_t i = 100 * 64; i < 150 * 64; ++i) t.k.set(i, random.normal()), t.v.set(i, 7);
    t.forward();
    const Doubles after = t.y.doubles();
    CHECK(std::equal(before.begin(), before.begin() + 100 * 64, after.begin()));
    CHECK(before[100 * 64] != after[100 * 64]);
  }
}

TEST_CASE("attention on a GPU with scores in the thousands") {
  Random random{46};
  for (const DType dtype : types) {
    Attention t{{.b = 1, .s = 90, .h = 64, .heads = 2}, dtype, random, 0, 0, 40.0F};
    t.forward();
    t.backward();
    const auto want = oracle::attention(t.q.doubles(), t.k.doubles(), t.v.doubles(), t.n);
    CHECK(error(t.y, want.y) < (dtype == DType::f32 ? 1e-3 : 1e-2));
    CHECK(testing::error(t.lse, want.lse) < 1e-5);
    for (const double number : t.results()) CHECK(std::isfinite(number));
  }
}

TEST_CASE("a GPU's attention rejects unsupported shapes with a one-line message") {
  Random random{47};
  Attention wide{{.b = 1, .s = 2, .h = 260, .heads = 2}, DType::bf16, random};
  CHECK_THROWS_WITH_AS(wide.forward(),
                       "attention_forward: heads of 130 columns; on CUDA a head has at most 128 "
                       "(more heads make them narrower)",
                       std::invalid_argument);
  Attention none{{.b = 0, .s = 4, .h = 4, .heads = 2}, DType::bf16, random};
  none.forward();
  none.backward();
}
