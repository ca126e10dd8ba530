#include <doctest/doctest.h>

#include <cmath>

#include "kernels/element.h"
#include "tests/kernels/support.h"

using namespace lockstep;
using namespace lockstep::testing;

namespace {

/// |got - want| in units of the last place of f32 at `want`.
double ulps(float got, double want) {
  const int exponent = std::max(std::ilogb(want), -126);
  return std::fabs(got - want) / std::ldexp(1.0, exponent - 23);
}

/// Every 97th float there is: all exponents, both signs, subnormal numbers, NaN and ∞.
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
    // Subnormal results have fewer digits to be right in.
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

TEST_CASE("softmax parts merge to the part of the whole, wherever the row is cut") {
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
