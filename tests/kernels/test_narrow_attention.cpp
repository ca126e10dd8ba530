#include <doctest/doctest.h>

#include "tests/kernels/narrow_pairs.h"
#include "tests/support/portion.h"

using namespace lockstep;
using namespace lockstep::testing;

TEST_CASE("attention on narrow elements is attention on their f32 values, rounded once") {
  const Kernels& kernel = kernels();
  using Views = const std::vector<View>&;
  Random random{23};
  const int trials = on_cpu() ? 20 : portion_of(20, 4);
  for (int trial = 0; trial < trials; ++trial)
    for (const DType dtype : narrow_types) {
      const std::string type = name_of(dtype);
      CAPTURE(type);
      const std::int64_t b = random.between(1, 3), s = random.between(1, 70), heads = 4,
                         groups = random_divisor(random, heads), d = random.between(1, 9);
      CAPTURE(s);
      CAPTURE(groups);
      const auto of = [&](Shape shape, std::int64_t gap = 0) {
        return Pair{dtype, shape, random, gap};
      };
      const Shape of_q{b, s, heads * d}, of_k{b, s, groups * d};
      const Pair q = of(of_q, 7), k = of(of_k, 7), v = of(of_k, 7), y = of(of_q), dy = of(of_q);
      const Pair dq = of(of_q, 7), dk = of(of_k, 7), dv = of(of_k, 7);
      Array lse{{b, heads, s}};
      const Array probabilities{{b, heads, s, s}};
      for (const bool kept : {false, true}) {
        const View p = kept ? probabilities.view() : View{};
        CHECK(wrong_after({q, k, v, y}, [&](Views a) {
                kernel.attention_forward({}, a[0], a[1], a[2], heads, a[3], lse, p);
              }) == 0);
        CHECK(wrong_after({dy, q, k, v, y, dq, dk, dv}, [&](Views a) {
                kernel.attention_backward({}, a[0], a[1], a[2], a[3], a[4], lse, p, heads, a[5],
                                          a[6], a[7]);
              }) == 0);
      }

      const AttentionBlock block{s / 2, s - s / 2, 1, s - 1};
      if (block.keys == 0) continue;
      auto ranges = random_indices(random, b * s * 2, s + 1);
      for (const View visible : {View{}, indices(ranges, {b, s, 2})}) {
        Array part_lse{{b, heads, block.queries}};
        CHECK(wrong_after({q, k, v, of({b, block.queries, heads * d})}, [&](Views a) {
                kernel.attention_block_forward({}, a[0], a[1], a[2], heads, block, visible, a[3],
                                               part_lse);
              }) == 0);
        CHECK(wrong_after({of({b, block.queries, heads * d}), y}, [&](Views a) {
                Array merged = lse;
                kernel.attention_merge({}, a[0], part_lse, heads, s / 2, a[1], merged);
              }) == 0);
        CHECK(wrong_after({dy, q, k, v, y, dq, dk, dv}, [&](Views a) {
                kernel.attention_block_backward({}, a[0], a[1], a[2], a[3], a[4], lse, heads, block,
                                                visible, a[5], a[6], a[7]);
              }) == 0);
      }
    }
}
