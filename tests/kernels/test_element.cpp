#include <doctest/doctest.h>

#include <cmath>

#include "kernels/element.h"
#include "tests/kernels/support.h"

using namespace lockstep;
using namespace lockstep::testing;

namespace {

/// Returns |got - want| in units in the last place of f32 at `want`.
double ulps(float got, double want) {
  const int exponent = std::max(std::ilogb(want), -126);
  return std::fabs(got - want) / std::ldexp(1.0, exponent - 23);
}

/// Visits every 97th float. These include all exponents, both signs, subnormals, NaN and ∞.
template <typename Visit>
void for_floats(Visit visit) {
  for (std::uint64_t bits = 0; bits < (1ULL << 32U); bits += 97)
    visit(element::from_bits(static_cast<std::uint32_t>(bits)));
}

}  // namespace

TEST_CASE("exp is within 1 ulp of the true value, from underflow to overflow") {
  double worst = 0.0;
  const auto visit = [&](float x) {
    if (!(x > -104.0F && x < 88.7228F)) return;
    worst = std::max(worst, ulps(element::exp(x), std::exp(static_cast<double>(x))));
  };
  for (int i = 0; i < 4'000'000; ++i) visit(-104.0F + static_cast<float>(i) * (193.0F / 4e6F));
  for_floats(visit);
  CHECK(worst < 1.0);
}

TEST_CASE("exp at the edges") {
  CHECK(element::exp(0.0F) == 1.0F);
  CHECK(element::exp(-0.0F) == 1.0F);
  CHECK(element::exp(infinity) == infinity);
  CHECK(element::exp(-infinity) == 0.0F);
  CHECK(std::isnan(element::exp(not_a_number)));
  CHECK(element::exp(88.8F) == infinity);
  CHECK(element::exp(3e38F) == infinity);
  CHECK(element::exp(-104.0F) == 0.0F);
  CHECK(element::exp(-3e38F) == 0.0F);
  // Underflow is gradual: e^-100 is subnormal.
  CHECK(element::exp(-100.0F) > 0.0F);
  CHECK(element::exp(-100.0F) < std::numeric_limits<float>::min());
  CHECK(element::exp(std::numeric_limits<float>::denorm_min()) == 1.0F);
}

TEST_CASE("tanh has a relative error below 2e-7, for tiny arguments too") {
  double worst = 0.0;
  bool odd = true, bounded = true;
  const auto visit = [&](float x) {
    if (std::isnan(x)) return;
    const float got = element::tanh(x);
    odd = odd && element::tanh(-x) == -got;
    bounded = bounded && std::fabs(got) <= 1.0F;
    const double want = std::tanh(static_cast<double>(x));
    // Subnormal results have fewer significant digits.
    if (std::fabs(want) < std::numeric_limits<float>::min()) return;
    worst = std::max(worst, std::fabs(got - want) / std::fabs(want));
  };
  for (int i = 0; i < 4'000'000; ++i) visit(-12.0F + static_cast<float>(i) * (24.0F / 4e6F));
  for_floats(visit);
  CHECK(worst < 2e-7);
  CHECK(odd);
  CHECK(bounded);
}

TEST_CASE("tanh at the edges") {
  CHECK(element::tanh(infinity) == 1.0F);
  CHECK(element::tanh(-infinity) == -1.0F);
  CHECK(element::tanh(20.0F) == 1.0F);
  CHECK(std::isnan(element::tanh(not_a_number)));
  CHECK(element::to_bits(element::tanh(0.0F)) == element::to_bits(0.0F));
  CHECK(element::to_bits(element::tanh(-0.0F)) == element::to_bits(-0.0F));
}

TEST_CASE("gelu and its derivative follow the formula") {
  for (float x = -12.0F; x < 12.0F; x += 0.001F) {
    CHECK(std::fabs(element::gelu(x) - oracle::gelu(x)) < 3e-7 * std::fmax(1.0, std::fabs(x)));
    CHECK(std::fabs(element::gelu_derivative(x) - oracle::gelu_derivative(x)) < 2e-6);
  }
  CHECK(element::gelu(1e4F) == 1e4F);
  CHECK(element::gelu(-1e4F) == 0.0F);
  CHECK(element::gelu_derivative(1e4F) == 1.0F);
  CHECK(element::gelu_derivative(-1e4F) == 0.0F);
}

TEST_CASE("silu and its derivative follow the formula") {
  for (float z = -100.0F; z < 100.0F; z += 0.01F) {
    CHECK(std::fabs(element::silu(z) - oracle::silu(z)) < 3e-7 * std::fmax(1e-3, std::fabs(z)));
    CHECK(std::fabs(element::silu_derivative(z) - oracle::silu_derivative(z)) < 2e-6);
  }
  for (const float z : {1e4F, 3e38F}) {
    CHECK(element::silu(z) == z);
    CHECK(element::silu(-z) == 0.0F);
    CHECK(element::silu_derivative(z) == 1.0F);
    CHECK(element::silu_derivative(-z) == 0.0F);
  }
}

namespace {

/// A 16-bit type, described as in IEEE 754: sign, exponent, fraction.
struct Narrow {
  const char* name;
  int fraction_bits, bias;
  float (*widen)(std::uint16_t);
  std::uint16_t (*round)(float);

  int exponents() const { return 1 << (15 - fraction_bits); }
  std::uint16_t infinite() const {
    return static_cast<std::uint16_t>((exponents() - 1) << fraction_bits);
  }
  /// Returns the value that these bits represent by definition; for ∞, the value that would follow
  /// the largest finite number.
  double value(unsigned magnitude) const {
    const int exponent = static_cast<int>(magnitude) >> fraction_bits;
    const int fraction = static_cast<int>(magnitude) & ((1 << fraction_bits) - 1);
    if (exponent == 0) return std::ldexp(fraction, 1 - bias - fraction_bits);
    return std::ldexp((1 << fraction_bits) + fraction, exponent - bias - fraction_bits);
  }
  /// Finds the magnitude nearest to |x| by bisection, with ties to even.
  std::uint16_t nearest(double x) const {
    unsigned low = 0, high = infinite();  // value(low) <= x < value(high)
    if (x >= value(high)) return infinite();
    while (high - low > 1) {
      const unsigned middle = (low + high) / 2;
      (value(middle) <= x ? low : high) = middle;
    }
    const double down = x - value(low), up = value(high) - x;
    const bool upward = up < down || (up == down && high % 2 == 0);
    return static_cast<std::uint16_t>(upward ? high : low);
  }
};

const Narrow narrow_types[] = {{"bf16", 7, 127, element::from_bf16, element::to_bf16},
                               {"f16", 10, 15, element::from_f16, element::to_f16}};

}  // namespace

TEST_CASE(
    "all 65536 patterns of a narrow type have the standard's values and survive a round trip") {
  for (const Narrow& type : narrow_types) {
    CAPTURE(type.name);
    int wrong = 0, lost = 0, nan = 0;
    for (unsigned bits = 0; bits < 65536; ++bits) {
      const unsigned magnitude = bits & 0x7fffU;
      const float got = type.widen(static_cast<std::uint16_t>(bits));
      if (magnitude > type.infinite()) {
        nan += std::isnan(got) && std::isnan(type.widen(type.round(got)));
        continue;
      }
      const double want = magnitude == type.infinite() ? INFINITY : type.value(magnitude);
      wrong += std::fabs(got) != want || std::signbit(got) != (bits >= 0x8000U);
      lost += type.round(got) != bits;
    }
    CHECK(wrong == 0);
    CHECK(lost == 0);
    CHECK(nan == 2 * (0x7fff - type.infinite()));
  }
}

TEST_CASE("rounding to a narrow type gives the nearest value, ties to even") {
  for (const Narrow& type : narrow_types) {
    CAPTURE(type.name);
    int wrong = 0;
    const auto check = [&](float x) {
      const unsigned sign = std::signbit(x) ? 0x8000U : 0;
      if (std::isnan(x))
        wrong += !std::isnan(type.widen(type.round(x)));
      else
        wrong += type.round(x) != (type.nearest(std::fabs(x)) | sign);
    };
    // Rounding changes direction at the midpoints between neighbouring 16-bit numbers, so the test
    // checks each midpoint and the floats on either side of it.
    for (unsigned magnitude = 0; magnitude < type.infinite(); ++magnitude) {
      const auto middle =
          static_cast<float>((type.value(magnitude) + type.value(magnitude + 1)) / 2);
      for (const float x : {middle, std::nextafter(middle, 0.0F), std::nextafter(middle, infinity)})
        for (const float signed_x : {x, -x}) check(signed_x);
    }
    for (std::uint64_t bits = 0; bits < (1ULL << 32U); bits += 9973)
      check(element::from_bits(static_cast<std::uint32_t>(bits)));
    check(infinity);
    check(-infinity);
    CHECK(wrong == 0);
  }
  CHECK(element::to_f16(65519.0F) == 0x7bff);  // rounds to the largest, 65504
  CHECK(element::to_f16(65520.0F) == 0x7c00);
  CHECK(element::to_f16(0x1p-24F) == 1);
  CHECK(element::to_f16(0x1p-25F) == 0);  // tie to even
  // A NaN whose payload is in the discarded bits must not become ∞.
  for (const std::uint32_t bits : {0x7f800001U, 0xff800001U, 0x7fffffffU}) {
    CHECK(std::isnan(element::from_bf16(element::to_bf16(element::from_bits(bits)))));
    CHECK(std::isnan(element::from_f16(element::to_f16(element::from_bits(bits)))));
  }
}

TEST_CASE("softmax parts merge into the part of the whole row, wherever the row is cut") {
  Random random{5};
  for (int trial = 0; trial < 200; ++trial) {
    const std::int64_t n = random.between(1, 20), cut = random.between(0, n);
    const float deviation = trial % 2 == 0 ? 1.0F : 100.0F;
    std::vector<float> x;
    for (std::int64_t i = 0; i < n; ++i) x.push_back(random.normal(deviation));
    const auto part = [&](std::int64_t first, std::int64_t last) {
      element::SoftmaxPart result;
      for (std::int64_t i = first; i < last; ++i)
        result = merge(result, {x[static_cast<std::size_t>(i)], 1.0F});
      return result;
    };
    const element::SoftmaxPart merged = merge(part(0, cut), part(cut, n));
    double largest = -INFINITY, sum = 0.0;
    for (float one : x) largest = std::fmax(largest, one);
    for (float one : x) sum += std::exp(one - largest);
    CHECK(merged.maximum == static_cast<float>(largest));
    CHECK(merged.sum == doctest::Approx(sum).epsilon(1e-6));
  }
}

TEST_CASE("merging with nothing changes nothing") {
  const element::SoftmaxPart nothing, one{3.0F, 2.0F};
  CHECK(merge(nothing, one).maximum == 3.0F);
  CHECK(merge(one, nothing).sum == 2.0F);
  CHECK(merge(nothing, nothing).sum == 0.0F);
}
