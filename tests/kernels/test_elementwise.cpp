#include <doctest/doctest.h>

#include "kernels/element.h"
#include "tests/kernels/support.h"

using namespace lockstep;
using namespace lockstep::testing;

TEST_CASE("gelu forward and backward treat each element independently, wherever it lies") {
  Random random{50};
  for (std::int64_t n : {0, 1, 2, 7, 15, 16, 17, 31, 33, 100, 1000}) {
    CAPTURE(n);
    Array x{{n}}, dy{{n}}, y{{n}}, dx{{n}};
    x.randomize(random, 3.0F), dy.randomize(random);
    kernels().gelu_forward({}, x, y);
    kernels().gelu_backward({}, x, dy, dx);
    CHECK(y.untouched());
    CHECK(dx.untouched());
    for (std::int64_t i = 0; i < n; ++i) {
      // The results of the vectorised loop, of its remainder and of a call on one element are
      // bitwise identical.
      CHECK(y[i] == element::gelu(x[i]));
      CHECK(dx[i] == dy[i] * element::gelu_derivative(x[i]));
    }
    kernels().gelu_backward({}, x, dy, dy);
    CHECK(same_bits(dy, dx));
  }
}

TEST_CASE("gelu over random numbers follows the oracle") {
  Random random{51};
  Array x{{1013}}, dy{{1013}}, y{{1013}}, dx{{1013}};
  x.randomize(random, 3.0F), dy.randomize(random);
  kernels().gelu_forward({}, x, y);
  kernels().gelu_backward({}, x, dy, dx);
  Doubles want_y, want_dx;
  for (std::int64_t i = 0; i < x.elements(); ++i) {
    want_y.push_back(oracle::gelu(x[i]));
    want_dx.push_back(dy[i] * oracle::gelu_derivative(x[i]));
  }
  CHECK(error(y, want_y) < tolerance);
  CHECK(error(dx, want_dx) < tolerance);
}

TEST_CASE("add (also in place), scale, fill") {
  Random random{52};
  for (std::int64_t n : {0, 1, 5, 16, 37, 500}) {
    Array a{{n}}, b{{n}}, y{{n}};
    a.randomize(random), b.randomize(random);
    kernels().add({}, a, b, y);
    CHECK(y.untouched());
    for (std::int64_t i = 0; i < n; ++i) CHECK(y[i] == a[i] + b[i]);
    Array c{{n}};
    c.set(a);
    kernels().add({}, a, b, a);
    CHECK(same_bits(a, y));
    kernels().add({}, c, b, b);
    CHECK(same_bits(b, y));
    Array scaled{{n}};
    scaled.set(c);
    kernels().scale({}, scaled, -0.3F);
    CHECK(scaled.untouched());
    for (std::int64_t i = 0; i < n; ++i) CHECK(scaled[i] == c[i] * -0.3F);
    kernels().fill({}, y, 4.5F);
    CHECK(y.untouched());
    for (std::int64_t i = 0; i < n; ++i) CHECK(y[i] == 4.5F);
  }
}

TEST_CASE("fill sets the elements of each view of a long list, of several types") {
  for (const std::size_t length : {0U, 1U, 300U}) {
    std::vector<Array> arrays;
    std::vector<std::vector<std::uint16_t>> halves(length);
    Outs list;
    for (std::size_t i = 0; i < length; ++i) {
      const auto n = static_cast<std::int64_t>(i * i % 37);
      arrays.emplace_back(Shape{n}, 0, static_cast<std::int64_t>(i % 5));
      halves[i].assign(size(n) + 2, 0x4242);
    }
    for (std::size_t i = 0; i < length; ++i) {
      const std::int64_t n = arrays[i].elements();
      list.emplace_back(arrays[i].view());
      if (i % 3 == 0) list.emplace_back(View{halves[i].data() + 1, {n}, DType::bf16});
    }
    kernels().fill({}, list, -2.0F);
    for (std::size_t i = 0; i < length; ++i) {
      CHECK(arrays[i].untouched());
      for (std::int64_t j = 0; j < arrays[i].elements(); ++j) CHECK(arrays[i][j] == -2.0F);
      for (std::size_t j = 0; j < halves[i].size(); ++j) {
        const bool inside = i % 3 == 0 && j > 0 && j + 1 < halves[i].size();
        CHECK(halves[i][j] == (inside ? 0xc000 : 0x4242));  // -2 in bf16
      }
    }
  }
}

TEST_CASE("copy moves elements between strides, of any dtype") {
  Random random{53};
  for (std::int64_t from_gap : {0, 3})
    for (std::int64_t to_gap : {0, 5}) {
      Array from{{4, 3, 7}, from_gap}, to{{12, 7}, to_gap};
      from.randomize(random);
      kernels().copy({}, from, to);
      CHECK(to.untouched());
      CHECK(same_bits(to, from));
    }
  std::vector<std::int32_t> numbers{1, 2, 3, 4, 5, 6}, copied(4);
  const View three_columns{numbers.data(), {2, 3}, DType::i32};
  kernels().copy({}, three_columns.columns(1, 2), indices(copied, {2, 2}));
  CHECK(copied == std::vector<std::int32_t>{2, 3, 5, 6});
  std::vector<std::uint16_t> halves{1, 2, 3, 4}, halves_copied(2);
  const View two_columns{halves.data(), {2, 2}, DType::bf16};
  kernels().copy({}, two_columns.columns(1, 1), View{halves_copied.data(), {2, 1}, DType::bf16});
  CHECK(halves_copied == std::vector<std::uint16_t>{2, 4});
}
