#include <doctest/doctest.h>

#include "tests/kernels/support.h"

using namespace lockstep;
using namespace lockstep::testing;

TEST_CASE("embedding adds a row of each table; its gradient adds to the rows that were read") {
  Random random{60};
  for (int trial = 0; trial < 40; ++trial) {
    const std::int64_t b = random.between(1, 4), s = random.between(1, 20),
                       h = random.between(1, 40), vocabulary = random.between(1, 9),
                       positions = s + random.between(0, 3);
    auto tokens = random_indices(random, b * s, vocabulary);
    Array table{{vocabulary, h}}, places{{positions, h}}, x{{b, s, h}};
    table.randomize(random), places.randomize(random);
    kernels().embedding_forward({}, indices(tokens, {b, s}), table, places, x);
    CHECK(x.untouched());
    for (std::int64_t i = 0; i < x.elements(); ++i) {
      const std::int64_t row = i / h, token = tokens[static_cast<std::size_t>(row)];
      CHECK(x[i] == table[token * h + i % h] + places[row % s * h + i % h]);
    }

    Array dx{{b, s, h}}, dtable{{vocabulary, h}}, dplaces{{positions, h}};
    dx.randomize(random), dtable.randomize(random), dplaces.randomize(random);
    Array want_table{{vocabulary, h}}, want_places{{positions, h}};
    want_table.set(dtable), want_places.set(dplaces);
    // The order is part of the contract, so f32 sums in that order are bitwise identical.
    for (std::int64_t i = 0; i < dx.elements(); ++i) {
      const std::int64_t row = i / h, token = tokens[static_cast<std::size_t>(row)];
      want_table[token * h + i % h] += dx[i];
      want_places[row % s * h + i % h] += dx[i];
    }
    kernels().embedding_backward({}, indices(tokens, {b, s}), dx, dtable, dplaces);
    CHECK(same_bits(dtable, want_table));
    CHECK(same_bits(dplaces, want_places));
    CHECK(dtable.untouched());
    CHECK(dplaces.untouched());
  }
}

TEST_CASE("an embedding divided by vocabulary: the parts add up to the whole, to the last bit") {
  Random random{61};
  for (int trial = 0; trial < 40; ++trial) {
    const std::int64_t b = random.between(1, 4), s = random.between(1, 20),
                       h = random.between(1, 40), vocabulary = random.between(1, 30),
                       ranks = random.between(1, 5);
    CAPTURE(vocabulary);
    CAPTURE(ranks);
    auto tokens = random_indices(random, b * s, vocabulary);
    const View t = indices(tokens, {b, s});
    Array table{{vocabulary, h}}, places{{s, h}}, whole{{b, s, h}}, sum{{b, s, h}}, dx{{b, s, h}};
    table.randomize(random), places.randomize(random), dx.randomize(random), sum.set(0.0F);
    kernels().embedding_forward({}, t, table, places, whole);
    Array dtable{{vocabulary, h}}, dplaces{{s, h}};
    dtable.set(0.5F), dplaces.set(0.25F);
    kernels().embedding_backward({}, t, dx, dtable, dplaces);

    std::int64_t rows = 0;
    const auto parts = vocabulary_parts(vocabulary, ranks, rows);
    for (std::size_t rank = 0; rank < parts.size(); ++rank) {
      const VocabularyPart part = parts[rank];
      Array mine{{rows, h}}, x{{b, s, h}}, dmine{{rows, h}}, dplaces_here{{s, h}};
      mine.set(not_a_number), dmine.set(0.5F), dplaces_here.set(0.25F);  // NaN: padding is not read
      for (std::int64_t i = 0; i < part.count * h; ++i) mine[i] = table[part.first * h + i];
      const bool adds_places = rank + 1 == parts.size();
      kernels().embedding_part_forward({}, t, part, mine, adds_places ? places.view() : View{}, x);
      CHECK(x.untouched());
      for (std::int64_t i = 0; i < x.elements(); ++i) sum[i] += x[i];
      kernels().embedding_part_backward({}, t, part, dx, dmine, dplaces_here);
      for (std::int64_t i = 0; i < rows * h; ++i)
        CHECK(dmine[i] == (i < part.count * h ? dtable[part.first * h + i] : 0.5F));
      CHECK(same_bits(dplaces_here, dplaces));  // in full, on every rank
      CHECK(dmine.untouched());
    }
    CHECK(same_bits(sum, whole));
  }
}

TEST_CASE("a token outside the vocabulary is named, and nothing is written") {
  if (!on_cpu()) return;
  std::vector<std::int32_t> tokens{0, 1, 2, 7};
  Array table{{7, 3}}, places{{2, 3}}, x{{2, 2, 3}};
  table.set(1.0F), places.set(1.0F);
  CHECK_THROWS_WITH_AS(
      kernels().embedding_forward({}, indices(tokens, {2, 2}), table, places, x),
      "embedding_forward: token 7 at (b, s) = (1, 1) is outside the vocabulary [0, 7)",
      std::out_of_range);
  CHECK(std::isnan(x[0]));
  tokens[3] = -1;
  CHECK_THROWS_AS(kernels().embedding_backward({}, indices(tokens, {2, 2}), x, table, places),
                  std::out_of_range);
  CHECK(table[0] == 1.0F);
}
