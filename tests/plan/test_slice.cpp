#include <doctest/doctest.h>
#include <fmt/format.h>

#include <nlohmann/json.hpp>
#include <random>
#include <set>

#include "core/plan/slice.h"
#include "tests/plan/random_integers.h"
#include "tests/support/complaints.h"

using namespace lockstep;
using lockstep::testing::complaint_of;
using lockstep::testing::RandomIntegers;

namespace {

/// Returns the position in the whole tensor of each element that a slice stores, or -1 for padding.
/// Computes it from the definition, box by box and index by index.
std::vector<std::int64_t> map_of(const Slice& slice) {
  std::vector<std::int64_t> map(static_cast<std::size_t>(slice.local().elements()), -1);
  const Shape& whole = slice.whole();
  for (const Slice::Piece& piece : slice.pieces()) {
    const Shape& extent = piece.box.extent;
    for (std::int64_t n = 0; n < extent.elements(); ++n) {
      std::int64_t left = n, in_whole = 0, in_local = piece.offset, stride = 1;
      for (int d = extent.rank(); d-- > 0;) {
        const std::int64_t i = left % extent[d];
        left /= extent[d];
        in_whole += (piece.box.begin[static_cast<std::size_t>(d)] + i) * stride;
        in_local += i * piece.strides[static_cast<std::size_t>(d)];
        stride *= whole[d];
      }
      REQUIRE(in_local >= 0);
      REQUIRE(in_local < static_cast<std::int64_t>(map.size()));
      REQUIRE(map[static_cast<std::size_t>(in_local)] == -1);
      map[static_cast<std::size_t>(in_local)] = in_whole;
    }
  }
  return map;
}

std::vector<std::int64_t> map_of_runs(const Slice& slice) {
  std::vector<std::int64_t> map(static_cast<std::size_t>(slice.local().elements()), -1);
  for (const auto& [in_whole, in_local, elements] : slice.runs())
    for (std::int64_t i = 0; i < elements; ++i)
      map[static_cast<std::size_t>(in_local + i)] = in_whole + i;
  return map;
}

/// Returns up to two random cuts. The number of parts need not divide the dimension.
std::vector<DimensionCut> any_cuts(RandomIntegers& random, const Shape& shape,
                                   std::vector<int>& parts) {
  std::vector<DimensionCut> cuts;
  for (int n = random.below(3); n > 0; --n) {
    DimensionCut cut{.dimension = random.below(shape.rank()), .parts = 1 + random.below(4)};
    const std::int64_t extent = shape[cut.dimension];
    if (random.below(2) == 0 && cuts.empty()) {
      const std::int64_t first = random.below(static_cast<int>(extent) + 1);
      const std::int64_t second = random.below(static_cast<int>(extent - first) + 1);
      cut.sections = {first, second, extent - first - second};
    }
    if (random.below(2) == 0) cut.grain = 1 + random.below(3);
    // A second cut of a dimension may make sections uneven, so only `parts` is used.
    parts.push_back(cut.parts);
    cuts.push_back(cut);
  }
  return cuts;
}

}  // namespace

TEST_CASE("the parts of a cut tensor have every element once, and keep their order") {
  RandomIntegers random{7};
  int padded = 0, boxes = 0;
  for (int round = 0; round < 600; ++round) {
    const int rank = 1 + random.below(4);
    const auto extent = [&] { return std::int64_t{1 + random.below(7)}; };
    const Shape shape = rank == 1   ? Shape{3 * extent()}
                        : rank == 2 ? Shape{extent(), 3 * extent()}
                        : rank == 3 ? Shape{extent(), extent(), extent()}
                                    : Shape{extent(), extent(), extent(), extent()};
    std::vector<int> parts;
    std::vector<DimensionCut> cuts = any_cuts(random, shape, parts);
    std::vector<int> seen(static_cast<std::size_t>(shape.elements()));
    int combinations = 1;
    for (const int n : parts) combinations *= n;
    std::set<std::string> shapes;
    for (int c = 0; c < combinations; ++c) {
      int left = c;
      for (std::size_t i = 0; i < cuts.size(); ++i) {
        cuts[i].part = left % parts[i];
        left /= parts[i];
      }
      const Slice slice{shape, cuts};
      const auto map = map_of(slice);
      CHECK(map_of_runs(slice) == map);
      std::int64_t here = 0;
      for (const std::int64_t element : map) {
        if (element < 0) continue;
        ++here;
        ++seen[static_cast<std::size_t>(element)];
      }
      CHECK(slice.elements() == here);
      CHECK(slice.is_whole() == (here == shape.elements() && slice.local() == shape));
      padded += here < slice.local().elements();
      boxes += slice.pieces().size() > 1;
      // The parts are equal, so every rank stores the same shape.
      std::string text;
      for (int d = 0; d < slice.local().rank(); ++d) text += fmt::format("{} ", slice.local()[d]);
      shapes.insert(text);
      CHECK(nlohmann::json::parse(slice.json())["boxes"].size() == slice.pieces().size());

      // A range of the slice, cut into any number of equal shards, has the same elements in the
      // same order.
      const std::int64_t stored = slice.local().elements();
      const std::int64_t first = stored == 0 ? 0 : random.below(static_cast<int>(stored));
      const std::int64_t count = random.below(static_cast<int>(stored - first) + 1);
      const Slice range = slice.range(first, count);
      const std::vector<std::int64_t> expected(map.begin() + first, map.begin() + first + count);
      CHECK(range.local() == Shape{count});
      CHECK(range.whole() == shape);
      CHECK(map_of(range) == expected);
      CHECK(map_of_runs(range) == expected);
      if (count > 1) {  // a range of a range
        const std::vector<std::int64_t> tail(expected.begin() + 1, expected.end());
        CHECK(map_of(range.range(1, count - 1)) == tail);
      }
    }
    CHECK(shapes.size() == 1);
    CHECK(std::ranges::count(seen, 1) == shape.elements());
  }
  CHECK(padded > 100);
  CHECK(boxes > 100);
}

TEST_CASE("the columns of q, k and v that belong to some heads are three boxes") {
  const DimensionCut heads{
      .dimension = 1, .part = 1, .parts = 4, .sections = {16, 16, 16}, .grain = 4};
  const Slice slice{{16, 48}, {&heads, 1}};
  CHECK(slice.text() == "[0:16, 4:8] + [0:16, 20:24] + [0:16, 36:40] of [16, 48]");
  CHECK(slice.local() == Shape{16, 12});
  CHECK(slice.json() ==
        R"({"whole":[16,48],"local":[16,12],"boxes":[{"begin":[0,4],"extent":[16,4]},)"
        R"({"begin":[0,20],"extent":[16,4]},{"begin":[0,36],"extent":[16,4]}]})");
}

TEST_CASE("with grouped heads, a rank has more columns of q than of k and v") {
  const DimensionCut heads{
      .dimension = 0, .part = 1, .parts = 2, .sections = {16, 8, 8}, .grain = 4};
  const Slice slice{{32, 16}, {&heads, 1}};
  CHECK(slice.text() == "[8:16, 0:16] + [20:24, 0:16] + [28:32, 0:16] of [32, 16]");
  CHECK(slice.local() == Shape{16, 16});
}

TEST_CASE("a vocabulary that does not divide is padded on its last ranks") {
  const auto rows = [](int part) {
    const DimensionCut cut{.part = part, .parts = 4};
    return Slice{{257, 8}, {&cut, 1}};
  };
  CHECK(rows(0).text() == "[0:65, 0:8] of [257, 8]");
  CHECK(rows(3).text() == "[195:257, 0:8] of [257, 8]");
  CHECK(rows(3).local() == Shape{65, 8});
  CHECK(rows(3).elements() == 62 * 8);
  const DimensionCut one_of_five{.part = 4, .parts = 5, .grain = 2};
  const Slice nothing{{7}, {&one_of_five, 1}};
  CHECK(nothing.text() == "nothing of [7]");
  CHECK(nothing.local() == Shape{2});
}

TEST_CASE("a flat range of a matrix is at most a part of a row, whole rows, and a part of a row") {
  CHECK(Slice{{4, 10}}.range(7, 20).text() == "[0:1, 7:10] + [1:2, 0:10] + [2:3, 0:7] of [4, 10]");
  CHECK(Slice{{4, 10}}.range(10, 20).text() == "[1:3, 0:10] of [4, 10]");
  CHECK(Slice{{4, 10}}.range(7, 20).runs() == std::vector<Slice::Run>{{7, 0, 20}});
}

TEST_CASE("impossible slices are rejected") {
  const auto cut = [](const DimensionCut& how) {
    return complaint_of<std::invalid_argument>([&] { Slice({4, 6}, {&how, 1}); });
  };
  CHECK(cut({.dimension = 2}) == "a cut of dimension 2 of a tensor that has 2");
  CHECK(cut({.part = 2, .parts = 2}) == "part 2 of 2 of 4 elements in sections of [4]");
  CHECK(cut({.sections = {3, 2}}) == "part 0 of 1 of 4 elements in sections of [3, 2]");
  CHECK(complaint_of<std::invalid_argument>([] { Slice({4}).range(2, 3); }) ==
        "elements 2 to 5 of a slice that stores 4");
}
