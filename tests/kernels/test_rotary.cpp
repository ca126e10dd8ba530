#include <doctest/doctest.h>

#include <cmath>
#include <stdexcept>

#include "tests/kernels/support.h"

using namespace lockstep;
using namespace lockstep::testing;

namespace {

/// Returns the cosines and sines of the angles p 10000^(-2i/d), as in Su 2021.
Array rotary_table(std::int64_t positions, std::int64_t d) {
  Array table{{positions, d}};
  for (std::int64_t p = 0; p < positions; ++p)
    for (std::int64_t i = 0; i < d / 2; ++i) {
      const double angle =
          static_cast<double>(p) *
          std::pow(10000.0, -2.0 * static_cast<double>(i) / static_cast<double>(d));
      table[p * d + i] = static_cast<float>(std::cos(angle));
      table[p * d + d / 2 + i] = static_cast<float>(std::sin(angle));
    }
  return table;
}

}  // namespace

TEST_CASE("rotary positions rotate every pair of every head, over random shapes and strides") {
  Random random{60};
  for (int trial = 0; trial < 60; ++trial) {
    const std::int64_t b = random.between(1, 3), s = random.between(1, 70),
                       heads = random.between(1, 8), d = 2 * random.between(1, 40),
                       longest = random.between(1, 100);
    CAPTURE(b);
    CAPTURE(s);
    CAPTURE(heads);
    CAPTURE(d);
    const bool one_for_all = trial % 2 == 0, inverse = trial % 3 == 0;
    Array x{{b, s, heads * d}, trial % 4}, table = rotary_table(longest, d);
    x.randomize(random);
    const Doubles before = x.doubles();
    auto positions = random_indices(random, one_for_all ? s : b * s, longest);
    const View places = indices(positions, one_for_all ? Shape{s} : Shape{b, s});
    kernels().rotary({}, x, static_cast<int>(heads), table, places, inverse);
    CHECK(error(x, oracle::rotary(before, size(heads), size(d), table.doubles(), positions,
                                  inverse)) < tolerance);
    // The other direction undoes the rotation.
    kernels().rotary({}, x, static_cast<int>(heads), table, places, !inverse);
    CHECK(error(x, before) < tolerance);
  }
}

TEST_CASE("the product of a rotated query and key depends only on their distance") {
  Random random{61};
  const std::int64_t d = 16, s = 30;
  Array table = rotary_table(200, d), q{{1, s, d}}, k{{1, s, d}};
  for (std::int64_t i = 0; i < d; ++i) {
    q[i] = random.normal(), k[i] = random.normal();
    for (std::int64_t row = 1; row < s; ++row) q[row * d + i] = q[i], k[row * d + i] = k[i];
  }
  std::vector<std::int32_t> later, earlier;
  for (std::int32_t p = 0; p < s; ++p) later.push_back(4 * p + 50), earlier.push_back(4 * p + 13);
  kernels().rotary({}, q, 1, table, indices(later, {s}), false);
  kernels().rotary({}, k, 1, table, indices(earlier, {s}), false);
  const auto product = [&](std::int64_t row) {
    double sum = 0.0;
    for (std::int64_t i = 0; i < d; ++i) sum += double{q[row * d + i]} * k[row * d + i];
    return sum;
  };
  for (std::int64_t row = 1; row < s; ++row) CHECK(std::abs(product(row) - product(0)) < 1e-4);
}

TEST_CASE("position 0 turns nothing, and a quarter turn swaps the halves of a head") {
  Array x{{1, 2, 4}}, table{{2, 4}};
  const float rows[] = {1, 1, 0, 0, 0, 0, 1, 1};  // cosines, then sines
  for (std::int64_t i = 0; i < 8; ++i) x[i] = static_cast<float>(i), table[i] = rows[i];
  std::vector<std::int32_t> positions{0, 1};
  kernels().rotary({}, x, 1, table, indices(positions, {2}), false);
  const float want[] = {0, 1, 2, 3, -6, -7, 4, 5};
  for (std::int64_t i = 0; i < 8; ++i) CHECK(x[i] == want[i]);
}

TEST_CASE("a position outside the table throws on the CPU; a GPU leaves its row alone") {
  Random random{62};
  for (const std::int32_t wrong : {-1, 7, 2'000'000'000}) {
    Array x{{2, 2, 8}}, table = rotary_table(7, 4);
    x.randomize(random);
    const Array before = x;
    std::vector<std::int32_t> positions{1, 2, wrong, 3};
    const View places = indices(positions, {2, 2});
    if (on_cpu()) {
      CHECK_THROWS_AS(kernels().rotary({}, x, 2, table, places, false), std::out_of_range);
      CHECK(same_bits(x, before));
      continue;
    }
    kernels().rotary({}, x, 2, table, places, false);
    for (std::int64_t row = 0; row < 4; ++row)
      for (std::int64_t i = row * 8; i < row * 8 + 8; ++i) CHECK((x[i] == before[i]) == (row == 2));
  }
}

TEST_CASE("rotary rejects heads with an odd number of columns") {
  Array x{{1, 2, 6}}, table{{2, 3}};
  std::vector<std::int32_t> positions{0, 1};
  CHECK_THROWS_WITH_AS(kernels().rotary({}, x, 2, table, indices(positions, {2}), false),
                       "rotary: table (2, 3) does not fit x (1, 2, 6): a head must have an even "
                       "number of columns",
                       std::invalid_argument);
}
