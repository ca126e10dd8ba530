#include <doctest/doctest.h>

#include "tests/kernels/support.h"
#include "tests/support/portion.h"

using namespace lockstep;
using namespace lockstep::testing;

namespace {

/// Arguments of one call; k and v have as many heads as there are groups.
struct Attention {
  oracle::Heads n;
  Array q, k, v, y, lse, dy, dq, dk, dv;

  Attention(oracle::Heads n_, std::int64_t gap, Random& random, float deviation = 1.0F)
      : n(n_),
        q{shape(), gap},
        k{key_shape(), gap},
        v{key_shape(), gap},
        y{shape()},
        lse{Shape{whole(n.b), whole(n.heads), whole(n.s)}},
        dy{shape()},
        dq{shape(), gap},
        dk{key_shape(), gap},
        dv{key_shape(), gap} {
    q.randomize(random, deviation), k.randomize(random, deviation);
    v.randomize(random), dy.randomize(random);
  }
  static std::int64_t whole(std::size_t x) { return static_cast<std::int64_t>(x); }
  Shape shape() const { return {whole(n.b), whole(n.s), whole(n.h)}; }
  Shape key_shape() const { return {whole(n.b), whole(n.s), whole(n.groups * n.d())}; }
  int heads() const { return static_cast<int>(n.heads); }
  void forward() { kernels().attention_forward({}, q, k, v, heads(), y, lse, {}); }
  void backward() {
    kernels().attention_backward({}, dy, q, k, v, y, lse, {}, heads(), dq, dk, dv);
  }
};

oracle::Heads random_heads(Random& random, std::int64_t longest) {
  const std::int64_t heads = random.between(1, 8);
  const auto d = static_cast<std::size_t>(random.between(1, 40));
  return {.b = static_cast<std::size_t>(random.between(1, 3)),
          .s = static_cast<std::size_t>(random.between(1, longest)),
          .h = size(heads) * d,
          .heads = size(heads),
          .groups = size(random_divisor(random, heads))};
}

}  // namespace

TEST_CASE("attention and its gradients, over random shapes and strides") {
  Random random{30};
  for (int trial = 0; trial < (on_cpu() ? 30 : portion_of(30, 12)); ++trial) {
    // Tests sequences within one block of rows, and sequences of several blocks with a remainder.
    Attention t{random_heads(random, trial % 2 ? 20 : 200), trial % 3, random};
    CAPTURE(t.n.b);
    CAPTURE(t.n.s);
    CAPTURE(t.n.h);
    CAPTURE(t.n.heads);
    CAPTURE(t.n.groups);
    t.forward();
    const auto want = oracle::attention(t.q.doubles(), t.k.doubles(), t.v.doubles(), t.n);
    CHECK(error(t.y, want.y) < tolerance);
    CHECK(error(t.lse, want.lse) < tolerance);
    t.backward();
    const auto gradients = oracle::attention_backward(t.q.doubles(), t.k.doubles(), t.v.doubles(),
                                                      t.dy.doubles(), t.n);
    CHECK(error(t.dv, gradients.dv) < tolerance);
    // A single position attends only to itself: dq and dk are zero except for rounding errors.
    if (t.n.s > 1) {
      CHECK(error(t.dq, gradients.dq) < tolerance);
      CHECK(error(t.dk, gradients.dk) < tolerance);
    }
  }
}

TEST_CASE("a group's heads have the bits of heads with copies of its keys and values") {
  Random random{36};
  for (int trial = 0; trial < (on_cpu() ? 20 : portion_of(20, 4)); ++trial) {
    Attention grouped{random_heads(random, trial % 2 ? 20 : 140), trial % 3, random};
    const oracle::Heads n = grouped.n;
    CAPTURE(n.s);
    CAPTURE(n.heads);
    CAPTURE(n.groups);
    Attention copied{{.b = n.b, .s = n.s, .h = n.h, .heads = n.heads}, trial % 3, random};
    copied.q.set(grouped.q), copied.dy.set(grouped.dy);
    // Calls visit(element of the copied keys, element of the group's keys).
    const auto for_keys = [&](auto visit) {
      for (std::size_t row = 0; row < n.b * n.s; ++row)
        for (std::size_t head = 0; head < n.heads; ++head)
          for (std::size_t c = 0; c < n.d(); ++c)
            visit(Attention::whole(n.at(0, row, head, c)),
                  Attention::whole(n.key_at(0, row, head, c)));
    };
    for_keys([&](std::int64_t copy, std::int64_t original) {
      copied.k[copy] = grouped.k[original], copied.v[copy] = grouped.v[original];
    });
    for (Attention* each : {&grouped, &copied}) each->forward(), each->backward();
    CHECK(same_bits(grouped.y, copied.y));
    CHECK(same_bits(grouped.lse, copied.lse));
    CHECK(same_bits(grouped.dq, copied.dq));
    Doubles dk(size(grouped.dk.elements())), dv(dk.size());
    for_keys([&](std::int64_t copy, std::int64_t original) {
      dk[size(original)] += copied.dk[copy], dv[size(original)] += copied.dv[copy];
    });
    if (n.s > 1) CHECK(error(grouped.dk, dk) < tolerance);
    CHECK(error(grouped.dv, dv) < tolerance);
  }
}

TEST_CASE("attention takes q, k, v as columns of one (b, s, 3h) tensor") {
  Random random{31};
  const std::int64_t b = 2, s = 70, h = 24;
  Attention apart{{.b = 2, .s = 70, .h = 24, .heads = 3}, 0, random};
  Array qkv{{b, s, 3 * h}}, dqkv{{b, s, 3 * h}};
  for (std::int64_t row = 0; row < b * s; ++row)
    for (std::int64_t c = 0; c < h; ++c) {
      qkv[row * 3 * h + c] = apart.q[row * h + c];
      qkv[row * 3 * h + h + c] = apart.k[row * h + c];
      qkv[row * 3 * h + 2 * h + c] = apart.v[row * h + c];
    }
  const View all = qkv, dall = dqkv;
  Array y{{b, s, h}}, lse{{b, 3, s}};
  apart.forward();
  kernels().attention_forward({}, all.columns(0, h), all.columns(h, h), all.columns(2 * h, h), 3, y,
                              lse, {});
  CHECK(same_bits(y, apart.y));
  CHECK(same_bits(lse, apart.lse));
  apart.backward();
  kernels().attention_backward({}, apart.dy, all.columns(0, h), all.columns(h, h),
                               all.columns(2 * h, h), y, lse, {}, 3, dall.columns(0, h),
                               dall.columns(h, h), dall.columns(2 * h, h));
  Array together{{b, s, 3 * h}};
  for (std::int64_t row = 0; row < b * s; ++row)
    for (std::int64_t c = 0; c < h; ++c) {
      together[row * 3 * h + c] = apart.dq[row * h + c];
      together[row * 3 * h + h + c] = apart.dk[row * h + c];
      together[row * 3 * h + 2 * h + c] = apart.dv[row * h + c];
    }
  CHECK(same_bits(dqkv, together));
}

TEST_CASE("attention is causal: what comes later changes no earlier row, to the bit") {
  Random random{32};
  Attention t{{.b = 1, .s = 150, .h = 16, .heads = 2}, 0, random};
  t.forward();
  Array before{t.shape()};
  before.set(t.y);
  const std::int64_t from = 100;
  for (std::int64_t i = from * 16; i < 150 * 16; ++i) t.k[i] = random.normal(), t.v[i] = 7.0F;
  t.forward();
  for (std::int64_t i = 0; i < from * 16; ++i) CHECK(t.y[i] == before[i]);
  CHECK(t.y[from * 16] != before[from * 16]);
}

TEST_CASE("attention with scores in the thousands, and with equal ones") {
  Random random{33};
  Attention sharp{{.b = 1, .s = 90, .h = 32, .heads = 2}, 0, random, 40.0F};
  sharp.forward();
  const auto want =
      oracle::attention(sharp.q.doubles(), sharp.k.doubles(), sharp.v.doubles(), sharp.n);
  // A score near 5000 has a rounding error of up to 5e-4, which becomes the relative error of its
  // probability.
  CHECK(error(sharp.y, want.y) < 1e-3);
  CHECK(error(sharp.lse, want.lse) < tolerance);
  sharp.backward();
  for (const Array* gradient : {&sharp.dq, &sharp.dk, &sharp.dv})
    for (std::int64_t i = 0; i < gradient->elements(); ++i) CHECK(std::isfinite((*gradient)[i]));

  // With equal keys, row i is the mean of the first i + 1 values.
  Attention flat{{.b = 1, .s = 90, .h = 4, .heads = 1}, 0, random};
  flat.k.set(1.0F);
  flat.forward();
  double mean = 0.0;
  for (std::int64_t i = 0; i < 90; ++i) {
    mean += (flat.v[i * 4] - mean) / static_cast<double>(i + 1);
    CHECK(flat.y[i * 4] == doctest::Approx(mean).epsilon(1e-5));
  }
}

TEST_CASE("kept probabilities are the softmax, and backward has the same bits with or without") {
  Random random{35};
  for (int trial = 0; trial < (on_cpu() ? 30 : portion_of(30, 8)); ++trial) {
    Attention t{random_heads(random, trial % 2 ? 20 : 200), trial % 3, random};
    CAPTURE(t.n.b);
    CAPTURE(t.n.s);
    CAPTURE(t.n.h);
    CAPTURE(t.n.heads);
    CAPTURE(t.n.groups);
    t.forward();
    t.backward();

    Attention kept = t;
    for (Array* output : {&kept.y, &kept.lse, &kept.dq, &kept.dk, &kept.dv})
      output->set(not_a_number);
    const std::int64_t s = Attention::whole(t.n.s);
    const std::int64_t matrices = Attention::whole(t.n.b * t.n.heads);
    Array probabilities{Shape{Attention::whole(t.n.b), t.heads(), s, s}};
    kernels().attention_forward({}, kept.q, kept.k, kept.v, t.heads(), kept.y, kept.lse,
                                probabilities);
    CHECK(same_bits(kept.y, t.y));
    CHECK(same_bits(kept.lse, t.lse));
    kernels().attention_backward({}, kept.dy, kept.q, kept.k, kept.v, kept.y, {}, probabilities,
                                 t.heads(), kept.dq, kept.dk, kept.dv);
    CHECK(same_bits(kept.dq, t.dq));
    CHECK(same_bits(kept.dk, t.dk));
    CHECK(same_bits(kept.dv, t.dv));

    std::vector<double> lse(t.n.s);
    for (std::int64_t matrix = 0; matrix < matrices; ++matrix) {
      const auto at = static_cast<std::size_t>(matrix);
      const auto want =
          oracle::probabilities(t.q.doubles(), t.k.doubles(), t.n, oracle::causal(t.n),
                                at / t.n.heads, at % t.n.heads, lse.data());
      double wrong = 0;
      for (std::int64_t i = 0; i < s * s; ++i)
        wrong = std::max(
            wrong, std::abs(probabilities[matrix * s * s + i] - want[static_cast<std::size_t>(i)]));
      CHECK(wrong < 1e-5);
      for (std::int64_t i = 0; i < s; ++i)
        for (std::int64_t j = i + 1; j < s; ++j)
          if (probabilities[(matrix * s + i) * s + j] != 0) wrong = 1;
      CHECK(wrong < 1);
    }
  }
}

TEST_CASE("attention over no sequences does nothing") {
  Random random{34};
  Attention none{{.b = 0, .s = 4, .h = 4, .heads = 2}, 0, random};
  none.forward();
  none.backward();
}
