#include <doctest/doctest.h>

#include <random>

#include "viz/read/timeline/analysis.h"

using namespace lockstep;

namespace {

constexpr int universe = 64;  // brute force: one flag per picosecond

using Flags = std::vector<bool>;

Flags flags_of(const std::vector<Interval>& intervals) {
  Flags flags(universe);
  for (const Interval& one : intervals) {
    for (Picoseconds t = one.start; t < one.end; ++t) flags[static_cast<std::size_t>(t)] = true;
  }
  return flags;
}

std::vector<Interval> random_intervals(std::mt19937& random) {
  std::uniform_int_distribution<Picoseconds> time(0, universe);
  std::vector<Interval> intervals(std::uniform_int_distribution<std::size_t>(0, 8)(random));
  for (Interval& one : intervals) {
    one = {time(random), time(random)};
    if (one.end < one.start) std::swap(one.start, one.end);
  }
  return intervals;
}

bool is_normal(const Intervals& intervals) {
  for (std::size_t i = 0; i < intervals.size(); ++i) {
    if (intervals[i].end <= intervals[i].start) return false;
    if (i > 0 && intervals[i].start <= intervals[i - 1].end) return false;
  }
  return true;
}

}  // namespace

TEST_CASE("intervals are merged before they are measured") {
  CHECK(merged({{5, 7}, {0, 2}, {2, 3}, {6, 9}, {4, 4}}) == Intervals{{0, 3}, {5, 9}});
  CHECK(intersection({{0, 4}, {6, 10}}, {{3, 7}}) == Intervals{{3, 4}, {6, 7}});
  CHECK(difference({{0, 4}, {6, 10}}, {{3, 7}, {8, 9}}) == Intervals{{0, 3}, {7, 8}, {9, 10}});
  CHECK(length({{0, 3}, {5, 9}}) == 7);
}

TEST_CASE("union, intersection and difference agree with a flag per picosecond") {
  std::mt19937 random{7};
  for (int round = 0; round < 2000; ++round) {
    const auto a = random_intervals(random);
    const auto b = random_intervals(random);
    const Flags in_a = flags_of(a);
    const Flags in_b = flags_of(b);
    const Intervals merged_a = merged(a);
    const Intervals merged_b = merged(b);
    const Intervals both = intersection(merged_a, merged_b);
    const Intervals rest = difference(merged_a, merged_b);
    REQUIRE(is_normal(merged_a));
    REQUIRE(is_normal(both));
    REQUIRE(is_normal(rest));
    REQUIRE(flags_of(merged_a) == in_a);
    Flags expected_both(universe), expected_rest(universe);
    for (std::size_t t = 0; t < universe; ++t) {
      expected_both[t] = in_a[t] && in_b[t];
      expected_rest[t] = in_a[t] && !in_b[t];
    }
    REQUIRE(flags_of(both) == expected_both);
    REQUIRE(flags_of(rest) == expected_rest);
    REQUIRE(length(both) + length(rest) == length(merged_a));
  }
}
