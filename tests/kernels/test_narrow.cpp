#include <doctest/doctest.h>

#include <functional>

#include "kernels/cpu/gemm.h"
#include "kernels/element.h"
#include "tests/kernels/support.h"
#include "tests/support/portion.h"

using namespace lockstep;
using namespace lockstep::testing;

namespace {

const DType narrow_types[] = {DType::bf16, DType::f16};

float widened(DType dtype, std::uint16_t bits) {
  return dtype == DType::bf16 ? element::from_bf16(bits) : element::from_f16(bits);
}
std::uint16_t rounded(DType dtype, float value) {
  return dtype == DType::bf16 ? element::to_bf16(value) : element::to_f16(value);
}

/// The same elements in f32 and, rounded, in a 16-bit type. After a kernel has run on both, the
/// 16-bit elements should equal the rounded f32 elements. Kernels must not change the gaps between
/// rows.
struct Pair {
  Pair(DType dtype_, Shape shape_, Random& random, std::int64_t gap = 0)
      : dtype(dtype_), shape(shape_), stride(shape.last() + gap) {
    const auto count = static_cast<std::size_t>(shape.rows() * stride);
    for (std::size_t i = 0; i < count; ++i) {
      narrow.push_back(rounded(dtype, random.normal(0.5F)));
      wide.push_back(widened(dtype, narrow.back()));
    }
  }

  View view(bool as_narrow) {
    View result{as_narrow ? static_cast<void*>(narrow.data()) : wide.data(), shape,
                as_narrow ? dtype : DType::f32};
    result.row_stride = stride;
    return result;
  }
  /// Returns the number of elements that differ, including those between the rows. If the kernels
  /// for the two types may add in different orders, returns 1 if the elements differ by more than 1
  /// % in norm, otherwise 0.
  int wrong(bool same_order) const {
    int count = 0;
    double difference = 0.0, norm = 0.0;
    if (!same_order) {
      for (std::size_t i = 0; i < wide.size(); ++i) {
        const bool between = static_cast<std::int64_t>(i) % stride >= shape.last();
        count += between && narrow[i] != rounded(dtype, wide[i]);
        difference += std::pow(widened(dtype, narrow[i]) - wide[i], 2);
        norm += std::pow(wide[i], 2);
      }
      return count + !(std::sqrt(difference) <= 1e-2 * std::sqrt(norm));
    }
    for (std::size_t i = 0; i < wide.size(); ++i) count += narrow[i] != rounded(dtype, wide[i]);
    return count;
  }

  DType dtype;
  Shape shape;
  std::int64_t stride;
  std::vector<std::uint16_t> narrow;
  std::vector<float> wide;
};

/// Calls `kernel` on the 16-bit views and on the f32 views; returns the number of wrong elements. A
/// GPU's matrix products, and a CPU's in bf16 if `product`, add in a different order for each type.
int wrong_after(std::vector<Pair> pairs,
                const std::function<void(const std::vector<View>&)>& kernel, bool product = false) {
  const bool same_order =
      on_cpu() && !(product && pairs[0].dtype == DType::bf16 && cpu::multiplies_bf16());
  for (const bool as_narrow : {true, false}) {
    std::vector<View> views;
    for (Pair& pair : pairs) views.push_back(pair.view(as_narrow));
    kernel(views);
  }
  int wrong = 0;
  for (const Pair& pair : pairs) wrong += pair.wrong(same_order);
  return wrong;
}

}  // namespace

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
      const std::int64_t b = random.between(1, 3), s = random.between(1, 70), heads = 2;
      const std::int64_t h = heads * random.between(1, 9), out = random.between(1, 20),
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

      Array mean{{rows}}, rstd{{rows}}, lse{{b, heads, s}};
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

      const Shape bsh{b, s, h};
      const Pair q = of(bsh, 7), key = of(bsh, 7), value = of(bsh, 7);
      CHECK(wrong_after({q, key, value, of(bsh)}, [&](Views v) {
              k.attention_forward({}, v[0], v[1], v[2], heads, v[3], lse, {});
            }) == 0);
      CHECK(wrong_after({of(bsh), q, key, value, of(bsh), of(bsh, 7), of(bsh, 7), of(bsh, 7)},
                        [&](Views v) {
                          k.attention_backward({}, v[0], v[1], v[2], v[3], v[4], lse, {}, heads,
                                               v[5], v[6], v[7]);
                        }) == 0);
      const Array probabilities{{b, heads, s, s}};
      CHECK(wrong_after({q, key, value, of(bsh)}, [&](Views v) {
              k.attention_forward({}, v[0], v[1], v[2], heads, v[3], lse, probabilities);
            }) == 0);
      CHECK(wrong_after({of(bsh), q, key, value, of(bsh), of(bsh, 7), of(bsh, 7), of(bsh, 7)},
                        [&](Views v) {
                          k.attention_backward({}, v[0], v[1], v[2], v[3], v[4], {}, probabilities,
                                               heads, v[5], v[6], v[7]);
                        }) == 0);

      const AttentionBlock block{s / 2, s - s / 2, 1, s - 1};
      if (block.keys > 0) {
        Array part_lse{{b, heads, block.queries}};
        CHECK(wrong_after({q, key, value, of({b, block.queries, h})}, [&](Views v) {
                k.attention_block_forward({}, v[0], v[1], v[2], heads, block, {}, v[3], part_lse);
              }) == 0);
        CHECK(wrong_after({of({b, block.queries, h}), of(bsh)}, [&](Views v) {
                Array merged = lse;
                k.attention_merge({}, v[0], part_lse, heads, s / 2, v[1], merged);
              }) == 0);
        CHECK(wrong_after({of(bsh), q, key, value, of(bsh), of(bsh, 7), of(bsh, 7), of(bsh, 7)},
                          [&](Views v) {
                            k.attention_block_backward({}, v[0], v[1], v[2], v[3], v[4], lse, heads,
                                                       block, {}, v[5], v[6], v[7]);
                          }) == 0);
      }

      auto tokens = random_indices(random, rows, 11);
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
