#include <doctest/doctest.h>

#include "tests/kernels/support.h"
#include "tests/support/portion.h"

using namespace lockstep;
using namespace lockstep::testing;

namespace {

/// Returns rows [first, first + count) of sequence b as a separate sequence.
View rows_of(const View& view, std::int64_t b, std::int64_t first, std::int64_t count) {
  View rows{view.f32() + (b * view.shape[1] + first) * view.row_stride,
            {1, count, view.shape.last()}};
  rows.row_stride = view.row_stride;
  return rows;
}

}  // namespace

TEST_CASE("documents side by side in a sequence are documents by themselves") {
  Random random{46};
  for (const std::int64_t longest : portion(std::vector<std::int64_t>{30, 1, 7, 64, 100, 170}, 3)) {
    CAPTURE(longest);
    const std::int64_t b = 2, s = 170, d = longest == 64 ? 80 : 16, of_q = 4 * d, of_k = 2 * d;
    Array q{{b, s, of_q}, 3}, k{{b, s, of_k}, 3}, v{{b, s, of_k}, 3}, dy{{b, s, of_q}};
    for (Array* each : {&q, &k, &v, &dy}) each->randomize(random);
    struct Document {
      std::int64_t b, first, rows;
    };
    std::vector<Document> documents;
    std::vector<std::int32_t> ranges;
    for (std::int64_t sequence = 0; sequence < b; ++sequence)
      for (std::int64_t row = 0; row < s; row += documents.back().rows) {
        documents.push_back({sequence, row, std::min(random.between(1, longest), s - row)});
        for (std::int64_t i = 0; i < documents.back().rows; ++i)
          for (const std::int64_t end : {row, row + i + 1})
            ranges.push_back(static_cast<std::int32_t>(end));
      }
    const View visible = indices(ranges, {b, s, 2});
    const AttentionBlock all{0, s, 0, s};
    Array y{{b, s, of_q}}, lse{{b, 4, s}}, dq{{b, s, of_q}}, dk{{b, s, of_k}}, dv{{b, s, of_k}};
    for (Array* each : {&dq, &dk, &dv}) each->set(0.0F);
    kernels().attention_block_forward({}, q, k, v, 4, all, visible, y, lse);
    kernels().attention_block_backward({}, dy, q, k, v, y, lse, 4, all, visible, dq, dk, dv);

    Array want_y{{b, s, of_q}}, want_dq{{b, s, of_q}}, want_dk{{b, s, of_k}}, want_dv{{b, s, of_k}};
    Doubles want_lse(size(b * 4 * s));
    for (const auto& [sequence, first, rows] : documents) {
      const auto part = [&, sequence = sequence, first = first, rows = rows](const Array& of) {
        return rows_of(of, sequence, first, rows);
      };
      Array part_lse{{1, 4, rows}};
      kernels().attention_forward({}, part(q), part(k), part(v), 4, part(want_y), part_lse, {});
      kernels().attention_backward({}, part(dy), part(q), part(k), part(v), part(want_y), part_lse,
                                   {}, 4, part(want_dq), part(want_dk), part(want_dv));
      for (std::int64_t i = 0; i < 4 * rows; ++i)
        want_lse[size((sequence * 4 + i / rows) * s + first + i % rows)] = part_lse[i];
    }
    CHECK(error(y, want_y.doubles()) < tolerance);
    CHECK(error(lse, want_lse) < tolerance);
    CHECK(error(dv, want_dv.doubles()) < tolerance);
    // A single token has no gradient of its query and key, except for rounding errors.
    if (longest == 1) continue;
    CHECK(error(dq, want_dq.doubles()) < tolerance);
    CHECK(error(dk, want_dk.doubles()) < tolerance);
  }
}
