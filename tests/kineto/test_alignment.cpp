#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <random>

#include "viz/read/kineto/alignment.h"

using namespace lockstep;
using namespace lockstep::kineto;

namespace {

/// A run in which each rank has its own clock: at true time t, it shows t + offset + drift * t.
struct Run {
  std::vector<double> offsets, drifts;
  std::vector<RankCalls> ranks;
  std::vector<Match> matches;

  Picoseconds local(std::size_t rank, double time) const {
    return std::llround(time + offsets[rank] + drifts[rank] * time);
  }
  /// Adds a collective whose members end within `jitter` of each other, around the true time `end`.
  void add(const std::vector<std::size_t>& members, double end, double duration, double jitter,
           std::mt19937& random) {
    std::uniform_real_distribution<double> late{-jitter / 2, jitter / 2}, share{0.2, 1};
    Match match{.kind = CallKind::all_reduce, .ends_together = true};
    for (const std::size_t rank : members) {
      const double own = end + late(random);
      Call call{.kind = CallKind::all_reduce};
      call.time = {local(rank, own - duration * share(random)), local(rank, own)};
      match.members.push_back({rank, ranks[rank].calls.size()});
      ranks[rank].calls.push_back(std::move(call));
    }
    matches.push_back(std::move(match));
  }
};

constexpr double microsecond = 1e6, millisecond = 1e9, second = 1e12;  // in picoseconds

}  // namespace

TEST_CASE("simulated offsets and drifts are found within the residual") {
  for (unsigned seed = 0; seed < 300; ++seed) {
    std::mt19937 random{seed};
    const auto below = [&](std::size_t n) {
      return std::uniform_int_distribution<std::size_t>{0, n - 1}(random);
    };
    // dp x tp ranks: as in a real run, collectives join the ranks of each row and of each column.
    const std::size_t dp = 1 + below(4), tp = 2 + below(4), count = dp * tp;
    Run run;
    run.ranks.resize(count);
    std::uniform_real_distribution<double> apart{-second, second}, drift{-3e-5, 3e-5};
    for (std::size_t i = 0; i < count; ++i) {
      run.offsets.push_back(apart(random));
      run.drifts.push_back(below(2) == 0 ? 0 : drift(random));
    }
    const std::size_t collectives = 3 + below(60);
    const double jitter = std::pow(10.0, static_cast<double>(below(4))) * microsecond;
    for (std::size_t k = 0; k < collectives; ++k) {
      const double end = (1 + static_cast<double>(k)) * 20 * millisecond;
      for (std::size_t row = 0; row < dp; ++row) {
        std::vector<std::size_t> members;
        for (std::size_t i = 0; i < tp; ++i) members.push_back(row * tp + i);
        run.add(members, end, 5 * millisecond, jitter, random);
      }
      for (std::size_t column = 0; dp > 1 && column < tp; ++column) {
        std::vector<std::size_t> members;
        for (std::size_t i = 0; i < dp; ++i) members.push_back(i * tp + column);
        run.add(members, end + 7 * millisecond, 5 * millisecond, jitter, random);
      }
    }
    const Alignment found = align_clocks(run.ranks, run.matches);
    CHECK(found.collectives == run.matches.size());
    for (const Match& match : run.matches)
      for (const Match::Member& member : match.members) {
        // The time on the reference clock when this member ends.
        const Picoseconds end = run.ranks[member.rank].calls[member.call].time.end;
        const double true_end =
            (static_cast<double>(end) - run.offsets[member.rank]) / (1 + run.drifts[member.rank]);
        const Picoseconds expected = run.local(0, true_end);
        CHECK(found.ranks[member.rank].aligned);
        REQUIRE(std::abs(found.ranks[member.rank].apply(end) - expected) <= found.residual);
      }
    // The residual is as small as the jitter, not as large as the offsets.
    CHECK(static_cast<double>(found.residual) <= 12 * jitter + 1e3);
  }
}

TEST_CASE("clocks that agree within the residual are not corrected") {
  std::mt19937 random{7};
  Run run;
  run.ranks.resize(3);
  run.offsets = {0, 2 * microsecond, -3 * microsecond};
  run.drifts = {0, 0, 0};
  for (int k = 0; k < 20; ++k)
    run.add({0, 1, 2}, (1 + k) * millisecond, 500 * microsecond, 50 * microsecond, random);
  const Alignment found = align_clocks(run.ranks, run.matches);
  CHECK_FALSE(found.corrected);
  CHECK(found.ranks[2].apply(1'000'000) == 1'000'000);
}

TEST_CASE("ranks without a collective in common are not aligned") {
  std::mt19937 random{8};
  Run run;
  run.ranks.resize(4);
  run.offsets = {0, second, 0, 5 * second};
  run.drifts = {0, 0, 0, 0};
  for (int k = 0; k < 20; ++k) {
    run.add({0, 1}, (1 + k) * millisecond, 500 * microsecond, microsecond, random);
    run.add({2, 3}, (1 + k) * millisecond, 500 * microsecond, microsecond, random);
  }
  const Alignment found = align_clocks(run.ranks, run.matches);
  CHECK(found.ranks[1].aligned);
  CHECK_FALSE(found.ranks[2].aligned);
  CHECK_FALSE(found.ranks[3].aligned);
  // Nevertheless, ranks 2 and 3 are aligned with each other.
  const Picoseconds end2 = run.ranks[2].calls[5].time.end, end3 = run.ranks[3].calls[5].time.end;
  CHECK(std::abs(found.ranks[2].apply(end2) - found.ranks[3].apply(end3)) <= found.residual);
}

TEST_CASE("with a single collective, the residual is at least its duration") {
  std::mt19937 random{9};
  Run run;
  run.ranks.resize(2);
  run.offsets = {0, second};
  run.drifts = {0, 0};
  run.add({0, 1}, 10 * millisecond, 500 * microsecond, 80 * microsecond, random);
  const Alignment found = align_clocks(run.ranks, run.matches);
  Picoseconds shortest = latest_time;
  for (const RankCalls& rank : run.ranks) {
    const Interval& time = rank.calls.front().time;
    shortest = std::min(shortest, time.end - time.start);
  }
  CHECK(found.residual >= shortest);
  const Picoseconds end = found.ranks[1].apply(run.local(1, 10 * millisecond));
  CHECK(std::abs(static_cast<double>(end) - 10 * millisecond) <=
        static_cast<double>(found.residual));
}
