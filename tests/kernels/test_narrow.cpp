#include <doctest/doctest.h>

#include "tests/kernels/narrow_pairs.h"
#include "tests/support/portion.h"

using namespace lockstep;
using namespace lockstep::testing;

TEST_CASE("blocks of rows of narrow elements give what all rows give") {
  const Kernels& k = kernels();
  using Views = const std::vector<View>&;
  Random random{22};
  for (const DType dtype : narrow_types)
    for (const std::int64_t h : {1, 37, 700}) {  // many, some and few rows per block
      // (A GPU does not divide the rows into blocks.)
      const std::int64_t rows = (on_cpu() ? 40'000 : 4'000) / h + 3;
      CAPTURE(h);
      const auto of = [&](Shape shape) { return Pair{dtype, shape, random}; };
      Array mean{{rows}}, rstd{{rows}};
      const Pair x = of({rows, h}), gain = of({h});
      CHECK(wrong_after({x, gain, of({h}), of({rows, h})}, [&](Views v) {
              k.layernorm_forward({}, v[0], v[1], v[2], v[3], mean, rstd);
            }) == 0);
      CHECK(wrong_after({of({rows, h}), x, gain}, [&](Views v) {
              k.layernorm_backward_input({}, v[0], v[1], v[2], mean, rstd, v[0]);
            }) == 0);
      CHECK(wrong_after({x, of({rows, h})}, [&](Views v) { k.gelu_forward({}, v[0], v[1]); }) == 0);
      CHECK(wrong_after({x, of({rows, h})},
                        [&](Views v) { k.gelu_backward({}, v[0], v[1], v[1]); }) == 0);
      CHECK(wrong_after({x, of({rows, h})}, [&](Views v) { k.add({}, v[0], v[1], v[0]); }) == 0);
      CHECK(wrong_after({x, gain, of({rows, h})}, [&](Views v) {
              k.rmsnorm_forward({}, v[0], v[1], 1e-6F, v[2], rstd);
            }) == 0);
      CHECK(wrong_after({of({rows, h}), x, gain}, [&](Views v) {
              k.rmsnorm_backward_input({}, v[0], v[1], v[2], rstd, v[0]);
            }) == 0);
      const Pair wide = of({rows, 2 * h});
      CHECK(wrong_after({wide, x}, [&](Views v) { k.swiglu_forward({}, v[0], v[1]); }) == 0);
      CHECK(wrong_after({wide, x}, [&](Views v) { k.swiglu_backward({}, v[0], v[1], v[0]); }) == 0);
    }
}

TEST_CASE("a kernel on narrow elements is the f32 kernel on them, rounded once") {
  const Kernels& k = kernels();
  using Views = const std::vector<View>&;
  Random random{21};
  const int trials = on_cpu() ? 20 : portion_of(20, 4);
  for (int trial = 0; trial < trials; ++trial) {
    for (const DType dtype : narrow_types) {
      const std::string type = name_of(dtype);
      CAPTURE(type);
      const std::int64_t b = random.between(1, 3), s = random.between(1, 70);
      const std::int64_t d = random.between(1, 9), h = 2 * d, out = random.between(1, 20),
                         rows = b * s;
      const auto of = [&](Shape shape, std::int64_t gap = 0) {
        return Pair{dtype, shape, random, gap};
      };
      const auto layout = trial % 2 == 0 ? WeightLayout::in_out : WeightLayout::out_in;
      const Shape weight = trial % 2 == 0 ? Shape{h, out} : Shape{out, h};
      const bool product = true;
      CHECK(wrong_after(
                {of({rows, h}, 3), of(weight), of({out}), of({rows, out}, 2)},
                [&](Views v) { k.linear_forward({}, v[0], v[1], v[2], v[3], layout); },
                product) == 0);
      CHECK(wrong_after(
                {of({rows, h}), of(weight), of({rows, out})},
                [&](Views v) { k.linear_forward({}, v[0], v[1], View{}, v[2], layout); },
                product) == 0);
      CHECK(wrong_after(
                {of({rows, out}, 1), of(weight), of({rows, h}, 5)},
                [&](Views v) { k.linear_backward_input({}, v[0], v[1], v[2], layout); },
                product) == 0);
      CHECK(wrong_after(
                {of({rows, h}), of({rows, out}), of(weight), of({out})},
                [&](Views v) { k.linear_backward_weight({}, v[0], v[1], v[2], v[3], layout); },
                product) == 0);

      Array mean{{rows}}, rstd{{rows}};
      const Pair x = of({rows, h}), gain = of({h});
      CHECK(wrong_after({x, gain, of({h}), of({rows, h})}, [&](Views v) {
              k.layernorm_forward({}, v[0], v[1], v[2], v[3], mean, rstd);
            }) == 0);
      CHECK(wrong_after({of({rows, h}), x, gain, of({rows, h})}, [&](Views v) {
              k.layernorm_backward_input({}, v[0], v[1], v[2], mean, rstd, v[3]);
            }) == 0);
      CHECK(wrong_after({of({rows, h}), x, of({h}), of({h})}, [&](Views v) {
              k.layernorm_backward_weight({}, v[0], v[1], mean, rstd, v[2], v[3]);
            }) == 0);
      CHECK(wrong_after({of({rows, h}), x, of({h})}, [&](Views v) {
              k.rmsnorm_backward_weight({}, v[0], v[1], rstd, v[2]);
            }) == 0);

      const Shape bsh{b, s, h};
      auto tokens = random_indices(random, rows, 11);
      const Array table = Array{{11, 2 * d}}.randomize(random);
      CHECK(wrong_after({of({b, s, 6 * d}, 5)}, [&](Views v) {
              k.rotary({}, v[0], 3, table, indices(tokens, {b, s}), trial % 2 == 0);
            }) == 0);

      const View t = indices(tokens, {b, s});
      CHECK(wrong_after({of({11, h}), of({s + 2, h}), of(bsh)},
                        [&](Views v) { k.embedding_forward({}, t, v[0], v[1], v[2]); }) == 0);
      CHECK(wrong_after({of(bsh), of({11, h}), of({s + 2, h})},
                        [&](Views v) { k.embedding_backward({}, t, v[0], v[1], v[2]); }) == 0);

      const VocabularyPart part{3, 7};
      CHECK(wrong_after({of({8, h}), of({s + 2, h}), of(bsh)}, [&](Views v) {
              k.embedding_part_forward({}, t, part, v[0], v[1], v[2]);
            }) == 0);
      CHECK(wrong_after({of(bsh), of({8, h}), of({s + 2, h})}, [&](Views v) {
              k.embedding_part_backward({}, t, part, v[0], v[1], v[2]);
            }) == 0);

      Array losses{{rows}}, sums{{rows}};
      const Pair logits = of({rows, 11});
      CHECK(wrong_after({logits},
                        [&](Views v) { k.cross_entropy_forward({}, v[0], t, losses, sums); }) == 0);
      CHECK(wrong_after({logits}, [&](Views v) {
              k.cross_entropy_backward({}, v[0], t, sums, 0.25F, v[0]);
            }) == 0);

      Array statistics{{3, rows}};
      CHECK(wrong_after({of({rows, 8})}, [&](Views v) {
              k.cross_entropy_part_forward({}, v[0], t, part, statistics);
            }) == 0);
      CHECK(wrong_after({of({rows, 8})}, [&](Views v) {
              k.cross_entropy_part_backward({}, v[0], t, part, sums, 0.25F, v[0]);
            }) == 0);

      CHECK(wrong_after({of({rows}), of({rows})},
                        [&](Views v) { k.gelu_forward({}, v[0], v[1]); }) == 0);
      CHECK(wrong_after({of({rows}), of({rows})},
                        [&](Views v) { k.gelu_backward({}, v[0], v[1], v[1]); }) == 0);
      CHECK(wrong_after({of({rows}), of({rows})}, [&](Views v) { k.add({}, v[0], v[1], v[0]); }) ==
            0);
      CHECK(wrong_after({of({rows})}, [&](Views v) { k.scale({}, v[0], 0.3F); }) == 0);
      CHECK(wrong_after({of({rows})}, [&](Views v) { k.fill({}, v[0], 0.3F); }) == 0);
      CHECK(wrong_after({of({rows, h}, 2), of({rows, h}, 3)},
                        [&](Views v) { k.copy({}, v[0], v[1]); }) == 0);

      Array momentum{{rows}}, variance{{rows}};
      const Pair p = of({rows}), g = of({rows});
      CHECK(wrong_after({p, g}, [&](Views v) {
              momentum.set(0.1F);
              variance.set(0.2F);
              k.adamw({}, {{v[0], v[1], momentum, variance, {}}}, {.weight_decay = 0.1F});
            }) == 0);
    }
  }
}

TEST_CASE("sums of narrow elements are sums of their exact values") {
  Random random{22};
  for (const DType dtype : narrow_types) {
    Pair x{dtype, {1001}, random};
    CHECK(sum_of(&Kernels::sums, x.view(true)) == sum_of(&Kernels::sums, x.view(false)));
    CHECK(sum_of(&Kernels::sums_of_squares, x.view(true)) ==
          sum_of(&Kernels::sums_of_squares, x.view(false)));
  }
}

TEST_CASE("one non-finite element is found anywhere, in every type") {
  Random random{23};
  for (const DType dtype : narrow_types) {
    for (const std::int64_t n : {1, 31, 33, 500}) {
      for (const bool as_narrow : {true, false}) {
        Pair x{dtype, {n}, random};
        CHECK(sum_of(&Kernels::counts_of_not_finite, x.view(as_narrow)) == 0);
        for (const float bad : {infinity, -infinity, not_a_number}) {
          const auto at = static_cast<std::size_t>(random.between(0, n - 1));
          Pair broken = x;
          broken.wide[at] = bad;
          broken.narrow[at] = rounded(dtype, bad);
          CHECK(sum_of(&Kernels::counts_of_not_finite, broken.view(as_narrow)) == 1);
        }
      }
    }
  }
  CHECK(sum_of(&Kernels::counts_of_not_finite, Array{{0}}) == 0);
}

TEST_CASE("convert works between any two types, and rounds to the narrower one") {
  Random random{24};
  const DType types[] = {DType::f32, DType::bf16, DType::f16};
  for (const DType from : narrow_types) {
    for (const DType to : types) {
      Pair source{from, {5, 9}, random, 3};
      std::vector<float> memory(200, 0.0F);
      View target{memory.data(), {5, 9}, to};
      target.row_stride = 11;
      kernels().convert({}, source.view(true), target);
      int wrong = 0;
      for (std::int64_t i = 0; i < 5 * 11; ++i) {
        const std::int64_t row = i / 11, column = i % 11;
        const float want =
            column < 9 ? source.wide[static_cast<std::size_t>(row * 12 + column)] : 0.0F;
        wrong += to == DType::f32 ? target.f32()[i] != want : target.u16()[i] != rounded(to, want);
      }
      CHECK(wrong == 0);
    }
  }
  Array numbers{{4}};
  CHECK_THROWS_WITH_AS(kernels().convert({}, numbers, View{numbers.view().data, {4}, DType::i32}),
                       "convert: to (4) is i32; this kernel takes f32", std::invalid_argument);
}
