#include <doctest/doctest.h>

#include "tests/kernels/support.h"

using namespace lockstep;
using namespace lockstep::testing;

namespace {

struct Case {
  std::int64_t rows, in, out, gap;
  WeightLayout layout;
  bool out_in() const { return layout == WeightLayout::out_in; }
  Shape weight() const { return out_in() ? Shape{out, in} : Shape{in, out}; }
};

/// Random shapes, including single rows and columns, long rows, and views of columns of wider
/// arrays.
template <typename Visit>
void for_cases(Visit visit) {
  Random random{10};
  for (int trial = 0; trial < 60; ++trial) {
    const std::int64_t limit = trial % 3 == 0 ? 3 : 70;
    Case c{random.between(1, limit), random.between(1, limit), random.between(1, limit),
           trial % 2 * random.between(1, 9),
           trial % 4 < 2 ? WeightLayout::in_out : WeightLayout::out_in};
    // On a GPU, long rows that are not a multiple of 16 bytes are multiplied in two parts.
    if (trial % 10 >= 8) (trial % 10 == 8 ? c.in : c.out) = random.between(1024, 1064);
    CAPTURE(c.rows);
    CAPTURE(c.in);
    CAPTURE(c.out);
    CAPTURE(c.gap);
    CAPTURE(c.out_in());
    visit(c, random);
  }
}

}  // namespace

TEST_CASE("linear_forward is x W + bias") {
  for_cases([](const Case& c, Random& random) {
    Array x{{c.rows, c.in}, c.gap}, w{c.weight()}, bias{{c.out}}, y{{c.rows, c.out}, c.gap};
    x.randomize(random), w.randomize(random), bias.randomize(random);
    kernels().linear_forward({}, x, w, bias, y, c.layout);
    CHECK(error(y, oracle::linear(x.doubles(), w.doubles(), bias.doubles(), size(c.rows),
                                  size(c.in), size(c.out), c.out_in())) < tolerance);
    kernels().linear_forward({}, x, w, View{}, y, c.layout);
    CHECK(error(y, oracle::linear(x.doubles(), w.doubles(), {}, size(c.rows), size(c.in),
                                  size(c.out), c.out_in())) < tolerance);
  });
}

TEST_CASE("linear_backward_input and linear_backward_weight are linear's gradients") {
  for_cases([](const Case& c, Random& random) {
    Array x{{c.rows, c.in}, c.gap}, w{c.weight()}, dy{{c.rows, c.out}, c.gap};
    Array dx{{c.rows, c.in}, c.gap}, dw{c.weight()}, db{{c.out}};
    x.randomize(random), w.randomize(random), dy.randomize(random);
    dw.randomize(random), db.randomize(random);
    const Doubles dw_before = dw.doubles(), db_before = db.doubles();
    const auto want = oracle::linear_backward(x.doubles(), w.doubles(), dy.doubles(), size(c.rows),
                                              size(c.in), size(c.out), c.out_in());
    kernels().linear_backward_input({}, dy, w, dx, c.layout);
    CHECK(error(dx, want.dx) < tolerance);
    kernels().linear_backward_weight({}, x, dy, dw, db, c.layout);
    CHECK(error(dw, plus(dw_before, want.dw)) < tolerance);
    CHECK(error(db, plus(db_before, want.db)) < tolerance);
    // This call passes no db, and adds to dw a second time.
    kernels().linear_backward_weight({}, x, dy, dw, View{}, c.layout);
    CHECK(error(dw, plus(plus(dw_before, want.dw), want.dw)) < tolerance);
    CHECK(error(db, plus(db_before, want.db)) < tolerance);
  });
}

TEST_CASE("db over thousands of rows keeps its last digits") {
  Random random{11};
  const std::int64_t rows = 5000, out = 33;
  Array x{{rows, 1}}, dy{{rows, out}}, dw{{1, out}}, db{{out}};
  x.randomize(random), dy.randomize(random), dw.set(0.0F), db.set(0.0F);
  for (std::int64_t i = 0; i < dy.elements(); ++i) dy[i] += 3.0F;
  kernels().linear_backward_weight({}, x, dy, dw, db, WeightLayout::in_out);
  Doubles want(size(out));
  for (std::int64_t i = 0; i < dy.elements(); ++i) want[size(i % out)] += dy[i];
  CHECK(error(db, want) < 2e-7);
}

TEST_CASE("linear takes a (b, s, h) view as b * s rows, and accepts zero rows") {
  Random random{12};
  Array x{{2, 3, 5}}, w{{5, 4}}, y{{2, 3, 4}};
  x.randomize(random), w.randomize(random);
  kernels().linear_forward({}, x, w, View{}, y, WeightLayout::in_out);
  CHECK(error(y, oracle::linear(x.doubles(), w.doubles(), {}, 6, 5, 4, false)) < tolerance);

  Array no_x{{0, 5}}, no_y{{0, 4}}, dw{{5, 4}}, db{{4}};
  dw.set(2.0F), db.set(3.0F);
  kernels().linear_forward({}, no_x, w, View{}, no_y, WeightLayout::in_out);
  kernels().linear_backward_input({}, no_y, w, no_x, WeightLayout::in_out);
  kernels().linear_backward_weight({}, no_x, no_y, dw, db, WeightLayout::in_out);
  CHECK(dw[7] == 2.0F);
  CHECK(db[3] == 3.0F);
}
