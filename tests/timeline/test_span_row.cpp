#include <doctest/doctest.h>

#include <random>

#include "viz/read/timeline/span_row.h"

using namespace lockstep;

TEST_CASE("a row's blocks have the sums of its spans, also after spans were removed") {
  std::mt19937 random{3};
  const auto number = [&](int from, int to) {
    return std::uniform_int_distribution<int>(from, to)(random);
  };
  SpanRow row;
  for (int round = 0; round < 200; ++round) {
    Picoseconds at = row.empty() ? 0 : row.back().end;
    for (int i = number(0, 60); i > 0; --i) {
      TimelineSpan span{.start = at += number(0, 5)};
      span.end = at += number(0, 9);
      span.category = static_cast<Category>(number(0, category_count - 1));
      row.push_back(span);
    }
    row.erase_from(row.end() - std::min<std::ptrdiff_t>(number(0, 40), row.end() - row.begin()));

    REQUIRE(row.blocks().size() == row.size() / SpanRow::block_size);
    std::array<Picoseconds, category_count> until{};
    for (std::size_t i = 0; i < row.size(); ++i) {
      until[static_cast<std::size_t>(row[i].category)] += row[i].duration();
      if ((i + 1) % SpanRow::block_size != 0) continue;
      const SpanRow::Block& block = row.blocks()[i / SpanRow::block_size];
      REQUIRE(block.end == row[i].end);
      REQUIRE(block.until == until);
    }
  }
  CHECK(row.size() > 500);
}
