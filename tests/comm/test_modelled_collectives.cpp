#include <doctest/doctest.h>

#include <functional>

#include "tests/support/collective_checks.h"
#include "tests/support/ranks.h"

using namespace lockstep;
using namespace lockstep::testing;

namespace {

constexpr Picoseconds us = 1'000'000;
constexpr double infinite = std::numeric_limits<double>::infinity();

/// A collective, and the rounds that it must consist of.
struct Case {
  std::string name;
  std::function<Work(Rank&, View)> issue;
  std::function<oracle::Rounds(std::int64_t, int)> rounds;
};

Case reduce_case(Algorithm algorithm, std::function<oracle::Rounds(std::int64_t, int)> rounds) {
  return {std::string("all_reduce by ") + name_of(algorithm),
          [algorithm](Rank& rank, View data) { return rank.world.all_reduce(data, algorithm); },
          std::move(rounds)};
}

const Case ring = reduce_case(Algorithm::ring, [](std::int64_t n, int ranks) {
  return oracle::reduce_scatter_rounds(n, ranks) + oracle::all_gather_rounds(n, ranks);
});
const Case naive = reduce_case(Algorithm::naive, oracle::naive_rounds);
const Case tree = reduce_case(Algorithm::tree, [](std::int64_t n, int ranks) {
  return oracle::reduce_rounds(n, ranks) + oracle::broadcast_rounds(n, ranks, 0);
});
const Case doubling = reduce_case(Algorithm::recursive_doubling, oracle::recursive_doubling_rounds);
const Case rabenseifner = reduce_case(Algorithm::rabenseifner, oracle::rabenseifner_rounds);
const Case reduce_scatter{"reduce_scatter",
                          [](Rank& rank, View data) { return rank.world.reduce_scatter(data); },
                          oracle::reduce_scatter_rounds};
const Case all_gather{"all_gather",
                      [](Rank& rank, View data) { return rank.world.all_gather(data); },
                      oracle::all_gather_rounds};
const Case barrier{"barrier", [](Rank& rank, View) { return rank.world.barrier(); },
                   [](std::int64_t, int ranks) { return oracle::barrier_rounds(ranks); }};

Case broadcast(int root) {
  return {"broadcast from " + std::to_string(root),
          [root](Rank& rank, View data) { return rank.world.broadcast(data, root); },
          [root](std::int64_t n, int ranks) { return oracle::broadcast_rounds(n, ranks, root); }};
}
Case gather(int root) {
  return {"gather to " + std::to_string(root),
          [root](Rank& rank, View data) { return rank.world.gather(data, root); },
          [root](std::int64_t n, int ranks) { return oracle::gather_rounds(n, ranks, root); }};
}

/// An all-to-all in which every rank sends up to n / ranks elements to any other rank.
Case all_to_all(unsigned seed) {
  const auto counts = [seed](std::int64_t n, int ranks) {
    return random_counts(ranks, n / ranks, seed);
  };
  return {
      "all_to_all_v " + std::to_string(seed),
      [counts](Rank& rank, View data) {
        const auto all = counts(data.elements(), rank.count);
        std::vector<std::int64_t> from;
        for (const auto& row : all) from.push_back(row[static_cast<std::size_t>(rank.id)]);
        static thread_local std::vector<float> into;
        into.resize(static_cast<std::size_t>(data.elements()));
        return rank.world.all_to_all_v(data, all[static_cast<std::size_t>(rank.id)], view(into),
                                       from);
      },
      [counts](std::int64_t n, int ranks) { return oracle::all_to_all_rounds(counts(n, ranks)); }};
}

std::vector<Case> all_cases(int ranks) {
  std::vector<Case> cases{ring,         naive,          tree,       doubling,
                          rabenseifner, reduce_scatter, all_gather, barrier};
  for (int root = 0; root < ranks; ++root) {
    cases.push_back(broadcast(root));
    cases.push_back(gather(root));
  }
  for (unsigned seed = 1; seed <= 3; ++seed) cases.push_back(all_to_all(seed));
  return cases;
}

/// Returns each rank's compute-stream time after the collective. All ranks begin the collective at
/// time 0.
std::vector<Picoseconds> times_of(const Case& c, int ranks, const Cluster& cluster,
                                  std::int64_t n) {
  std::vector<Picoseconds> ends(static_cast<std::size_t>(ranks));
  const std::string failure = on_threads(modelled_options(ranks, cluster), [&](Rank& rank) {
    std::vector<float> values(static_cast<std::size_t>(n));
    c.issue(rank, view(values)).wait();
    ends[static_cast<std::size_t>(rank.id)] = rank.compute.now();
  });
  CHECK(failure == "");
  return ends;
}
Picoseconds longest(const Case& c, int ranks, const Cluster& cluster, std::int64_t n) {
  const auto times = times_of(c, ranks, cluster, n);
  return *std::max_element(times.begin(), times.end());
}

Cluster one_node(double latency_seconds, double bandwidth) {
  Cluster cluster;
  cluster.within = {latency_seconds, bandwidth};
  return cluster;
}
Cluster two_nodes(int ranks, Link within, Link between) {
  Cluster cluster;
  cluster.nodes = 2;
  cluster.ranks_per_node = (ranks + 1) / 2;
  cluster.within = within;
  cluster.between = between;
  return cluster;
}

}  // namespace

// The collectives follow one another directly, so a lane may still be occupied by the previous
// collective. The ranks arrive at each collective at different times.
TEST_CASE("modelled: every collective takes the time of its rounds, to the picosecond") {
  FixedTimes times;
  times.set(Category::forward, 7 * us / 3);
  for (int ranks = 1; ranks <= 9; ++ranks) {
    for (const Cluster& cluster :
         {one_node(2e-6, 1e9), one_node(0, 3.7e9), one_node(1.7e-6, infinite), Cluster{},
          two_nodes(ranks, {1.3e-6, 3.7e9}, {1.1e-5, 1.23e8}),
          two_nodes(ranks, {0, infinite}, {3e-6, 7e8}),
          two_nodes(ranks, {1e-6, 1e9, {{40, 2e-6, 3e9}, {2000, 0, 4e8}}},
                    {3e-6, 7e8, {{120, 1e-6, 5e8}}})}) {
      for (const std::int64_t n : {0, 1, 30, 1009}) {
        const auto cases = all_cases(ranks);
        std::vector<std::vector<Picoseconds>> seen(
            cases.size(), std::vector<Picoseconds>(static_cast<std::size_t>(ranks)));
        const std::string failure =
            on_threads(modelled_options(ranks, cluster, times), [&](Rank& rank) {
              std::vector<float> values(static_cast<std::size_t>(n));
              for (std::size_t i = 0; i < cases.size(); ++i) {
                for (int k = 0; k < rank.id * static_cast<int>(i) % 4; ++k)
                  rank.compute.range({.category = Category::forward}, [] {});
                cases[i].issue(rank, view(values)).wait();
                seen[i][static_cast<std::size_t>(rank.id)] = rank.compute.now();
              }
            });
        CHECK(failure == "");
        oracle::Machine machine{cluster, ranks};
        for (std::size_t i = 0; i < cases.size(); ++i) {
          for (int rank = 0; rank < ranks; ++rank)
            machine.now[static_cast<std::size_t>(rank)] +=
                rank * static_cast<int>(i) % 4 * (7 * us / 3);
          machine.run(cases[i].rounds(n, ranks));
          if (seen[i] == machine.now) continue;
          FAIL_CHECK(cases[i].name << " of " << n << " elements on " << ranks << " ranks");
          break;
        }
      }
    }
  }
}

TEST_CASE("modelled: the algorithms' formulas, in the cases in which they are exact") {
  const Picoseconds alpha = 2 * us;
  const Cluster cluster = one_node(2e-6, 1e9);  // 1 byte per nanosecond
  const auto beta = [](std::int64_t elements) { return 4000 * elements; };
  for (int ranks = 2; ranks <= 9; ++ranks) {
    CAPTURE(ranks);
    const int power = 1 << oracle::log2_below(ranks);
    const int rounds = oracle::log2_below(power);
    const int rounded_up = rounds + (power < ranks ? 1 : 0);
    const bool folds = power < ranks;
    for (const std::int64_t n : {1, 30, 1009, 720}) {
      CAPTURE(n);
      const std::int64_t chunk = (n + ranks - 1) / ranks;
      CHECK(longest(ring, ranks, cluster, n) == 2 * (ranks - 1) * (alpha + beta(chunk)));
      CHECK(longest(reduce_scatter, ranks, cluster, n) == (ranks - 1) * (alpha + beta(chunk)));
      CHECK(longest(all_gather, ranks, cluster, n) == (ranks - 1) * (alpha + beta(chunk)));
      CHECK(longest(naive, ranks, cluster, n) == 2 * alpha + 2 * (ranks - 1) * beta(n));
      // (A member into which no other member is folded starts the first round immediately.)
      CHECK(longest(doubling, ranks, cluster, n) <= (rounds + (folds ? 2 : 0)) * (alpha + beta(n)));
      if (!folds) CHECK(longest(doubling, ranks, cluster, n) == rounds * (alpha + beta(n)));
      if (n % power == 0)
        CHECK(longest(rabenseifner, ranks, cluster, n) ==
              2 * rounds * alpha + 2 * beta(n - n / power) + (folds ? 2 * (alpha + beta(n)) : 0));
      const Picoseconds up_and_down = 2 * rounded_up * (alpha + beta(n));
      CHECK(longest(tree, ranks, cluster, n) <= up_and_down);
      CHECK(longest(broadcast(1), ranks, cluster, n) <= up_and_down / 2);
      if (!folds) {
        CHECK(longest(tree, ranks, cluster, n) == up_and_down);
        CHECK(longest(broadcast(1), ranks, cluster, n) == up_and_down / 2);
      }
      const auto root = static_cast<std::size_t>(ranks - 1);
      CHECK(times_of(gather(ranks - 1), ranks, cluster, n)[root] ==
            alpha + beta(n - oracle::chunk(n, ranks, ranks - 1)));
      for (const Picoseconds end : times_of(barrier, ranks, cluster, n))
        CHECK(end == rounded_up * alpha);
    }
  }
}

TEST_CASE("modelled: a ring that crosses a slow link runs at that link's speed") {
  for (const int ranks : {4, 6, 8}) {
    const std::int64_t n = 250 * ranks;  // 1000 bytes per chunk
    const Cluster slow = two_nodes(ranks, {0, infinite}, {0, 1e8});
    CHECK(longest(ring, ranks, slow, n) == 2 * (ranks - 1) * 10 * us);
    // A slow link's latency delays a round only if no longer delay hides it.
    const Cluster far = two_nodes(ranks, {1e-6, 1e9}, {1e-5, 1e8});
    CHECK(longest(ring, ranks, far, n) > 2 * (ranks - 1) * 10 * us);
    CHECK(longest(ring, ranks, far, n) <= 2 * (ranks - 1) * 20 * us);
  }
}

TEST_CASE("modelled: collectives that overlap share the lanes of their group only") {
  constexpr int ranks = 3;
  constexpr std::int64_t n = 300;
  const Cluster cluster = one_node(2e-6, 1e9);
  FixedTimes times;
  times.set(Category::forward, us);
  std::vector<Picoseconds> ends(ranks), others(ranks);
  const std::string failure = on_threads(modelled_options(ranks, cluster, times), [&](Rank& rank) {
    Group other{
        rank.endpoint, {0, 1, 2}, "other", rank.transport->open_channels(Group::channels_taken)};
    std::vector<float> a(n), b(n), c(n);
    Work first = rank.world.all_reduce(view(a));
    rank.compute.range({.category = Category::forward}, [] {});
    Work second = rank.world.all_reduce(view(b), Algorithm::naive);
    Work apart = other.broadcast(view(c), 0);
    others[static_cast<std::size_t>(rank.id)] = apart.finish().time;
    second.wait();
    first.wait();
    ends[static_cast<std::size_t>(rank.id)] = rank.compute.now();
  });
  CHECK(failure == "");
  oracle::Machine world{cluster, ranks}, alone{cluster, ranks};
  const std::vector<Picoseconds> later(ranks, us);
  const auto first = world.run(ring.rounds(n, ranks), {0, 0, 0});
  auto both = world.run(naive.rounds(n, ranks), later);
  for (std::size_t i = 0; i < both.size(); ++i) both[i] = std::max(both[i], first[i]);
  CHECK(ends == both);
  CHECK(others == alone.run(oracle::broadcast_rounds(n, ranks, 0), later));
}
