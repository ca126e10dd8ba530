#include <doctest/doctest.h>

#include <random>
#include <set>

#include "core/plan/box.h"
#include "core/plan/slice.h"
#include "tests/plan/random_integers.h"

using namespace lockstep;
using namespace lockstep::testing;

namespace {

Shape any_shape(RandomIntegers& random) {
  const auto extent = [&] { return std::int64_t{1 + random.below(6)}; };
  switch (random.below(3)) {
    case 0:
      return {3 * extent()};
    case 1:
      return {extent(), extent()};
    default:
      return {extent(), extent(), extent()};
  }
}

Box any_box(RandomIntegers& random, const Shape& whole) {
  Box box;
  std::vector<std::int64_t> extents;
  for (int d = 0; d < whole.rank(); ++d) {
    const int first = random.below(static_cast<int>(whole[d]));
    box.begin[static_cast<std::size_t>(d)] = first;
    extents.push_back(1 + random.below(static_cast<int>(whole[d]) - first));
  }
  box.extent = shape_of(extents);
  return box;
}

/// Returns the row-major positions of a box's elements, index by index.
std::set<std::int64_t> elements_of(const Box& box, const Shape& whole) {
  std::set<std::int64_t> elements;
  for (std::int64_t n = 0; n < box.extent.elements(); ++n) {
    std::int64_t left = n, at = 0, stride = 1;
    for (int d = whole.rank(); d-- > 0;) {
      at += (box.begin[static_cast<std::size_t>(d)] + left % box.extent[d]) * stride;
      left /= box.extent[d];
      stride *= whole[d];
    }
    elements.insert(at);
  }
  return elements;
}

}  // namespace

TEST_CASE("two boxes share the elements that are in both, and a difference is the others, once") {
  RandomIntegers random{17};
  for (int round = 0; round < 2000; ++round) {
    const Shape whole = any_shape(random);
    const Box a = any_box(random, whole), b = any_box(random, whole);
    const auto in_a = elements_of(a, whole), in_b = elements_of(b, whole);
    std::set<std::int64_t> both, only_a;
    for (const std::int64_t each : in_a) (in_b.contains(each) ? both : only_a).insert(each);
    const std::optional<Box> shared = intersection(a, b);
    CHECK((shared ? elements_of(*shared, whole) : std::set<std::int64_t>{}) == both);
    std::set<std::int64_t> outside;
    std::size_t count = 0;
    for (const Box& part : difference(a, b)) {
      const auto in_part = elements_of(part, whole);
      count += in_part.size();
      outside.insert(in_part.begin(), in_part.end());
    }
    CHECK(outside == only_a);
    CHECK(count == only_a.size());
  }
}

TEST_CASE("each element goes to its first holder, and to no other") {
  RandomIntegers random{17};
  int covered = 0;
  for (int round = 0; round < 1000; ++round) {
    const Shape whole = any_shape(random);
    std::vector<std::vector<Box>> holders(static_cast<std::size_t>(1 + random.below(5)));
    for (auto& boxes : holders)
      for (int n = random.below(3); n > 0; --n) boxes.push_back(any_box(random, whole));
    if (random.below(2) == 0) holders.push_back(holders.front());
    const auto firsts = first_holders(holders);
    REQUIRE(firsts.size() == holders.size());
    std::set<std::int64_t> taken;
    std::vector<Box> all;
    for (std::size_t i = 0; i < holders.size(); ++i) {
      std::set<std::int64_t> wanted, got;
      for (const Box& box : holders[i])
        for (const std::int64_t each : elements_of(box, whole))
          if (!taken.contains(each)) wanted.insert(each);
      std::size_t count = 0;
      for (const Box& box : firsts[i]) {
        const auto elements = elements_of(box, whole);
        count += elements.size();
        got.insert(elements.begin(), elements.end());
        all.push_back(box);
      }
      CHECK(got == wanted);
      CHECK(count == got.size());
      taken.insert(got.begin(), got.end());
    }
    const bool complete = static_cast<std::int64_t>(taken.size()) == whole.elements();
    CHECK(cover_once(all, whole) == complete);
    covered += complete;
    if (!complete || all.empty()) continue;
    all.push_back(all.front());
    CHECK_FALSE(cover_once(all, whole));
  }
  CHECK(covered > 100);
}

TEST_CASE("a slice's elements are found in any box of the tensor") {
  RandomIntegers random{17};
  for (int round = 0; round < 1000; ++round) {
    const Shape whole = any_shape(random);
    std::vector<DimensionCut> cuts;
    if (random.below(3) > 0)
      cuts.push_back({.dimension = random.below(whole.rank()),
                      .part = random.below(2),
                      .parts = 2 + random.below(2)});
    Slice slice{whole, cuts};
    if (const auto n = static_cast<int>(slice.local().elements()); n > 0 && random.below(2) == 0) {
      const int first = random.below(n);
      slice = slice.range(first, 1 + random.below(n - first));
    }
    const Box box = any_box(random, whole);
    // The position in the box of each element that the slice stores there; -1 elsewhere.
    std::vector<std::int64_t> wanted(static_cast<std::size_t>(slice.local().elements()), -1);
    const auto in_box = elements_of(box, whole);
    for (const auto& [in_whole, in_local, n] : slice.runs())
      for (std::int64_t i = 0; i < n; ++i)
        if (const auto at = in_box.find(in_whole + i); at != in_box.end())
          wanted[static_cast<std::size_t>(in_local + i)] = std::distance(in_box.begin(), at);
    std::vector<std::int64_t> got(wanted.size(), -1);
    for (const auto& [at, in_local, n] : slice.runs(box))
      for (std::int64_t i = 0; i < n; ++i) got[static_cast<std::size_t>(in_local + i)] = at + i;
    CHECK(got == wanted);
  }
}
