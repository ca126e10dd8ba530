#include <doctest/doctest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "tests/gpu/attention_calls.h"
#include "tests/support/portion.h"

// Compares a GPU's attention with the oracle for 16-bit types and for sizes around the tile sizes,
// and tests which results must be bitwise identical. The emulator draws a different order of
// threads for each kernel, so results that are bitwise identical on the emulator do not depend on
// that order.

using namespace lockstep;
using namespace lockstep::testing;

namespace {

const DType types[] = {DType::f32, DType::bf16, DType::f16};

}  // namespace

TEST_CASE("attention on a GPU, for sizes around the tile sizes, in every type") {
  Random random{40};
  double worst[4] = {};
  const std::vector<std::size_t> sizes{65, 1, 16, 130, 17, 2, 15, 63, 64, 100, 128};
  for (const std::size_t s : portion(sizes, 5))
    for (const DType dtype : types)
      for (const std::int64_t gap : {0, 8, 3}) {
        const auto sizes_of = gap == 0 ? random_heads : random_groups;
        Attention t{sizes_of(random, s), dtype, random, gap, gap == 3 ? 1 : 0};
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

TEST_CASE("a group's heads have the bits of heads with copies of its keys, in every type") {
  Random random{48};
  for (const std::size_t s : portion(std::vector<std::size_t>{70, 130, 1, 33}, 1))
    for (const DType dtype : types) {
      Attention grouped{random_groups(random, s), dtype, random};
      const oracle::Heads n = grouped.n;
      Attention copied{{.b = n.b, .s = n.s, .h = n.h, .heads = n.heads}, dtype, random};
      const std::string what = named(grouped);
      CAPTURE(what);
      copied.q = grouped.q, copied.dy = grouped.dy;
      for (std::size_t row = 0; row < n.b * s; ++row)
        for (std::size_t head = 0; head < n.heads; ++head)
          for (std::size_t c = 0; c < n.d(); ++c) {
            const std::int64_t to = Attention::whole(n.at(0, row, head, c));
            const std::int64_t from = Attention::whole(n.key_at(0, row, head, c));
            copied.k.set(to, static_cast<float>(grouped.k.get(from)));
            copied.v.set(to, static_cast<float>(grouped.v.get(from)));
          }
      for (Attention* each : {&grouped, &copied}) each->forward(), each->backward();
      CHECK(grouped.y.doubles() == copied.y.doubles());
      CHECK(same_bits(grouped.lse, copied.lse));
      CHECK(grouped.dq.doubles() == copied.dq.doubles());
      CHECK(largest_error(grouped) < allowed(grouped));  // dk and dv
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
      const auto sizes = s == 33 ? random_groups : random_heads;
      Attention t{sizes(random, s), dtype, random, 0, 0, 2.0F};
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
        const auto want =
            oracle::probabilities(t.q.doubles(), t.k.doubles(), t.n, oracle::causal(t.n),
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
