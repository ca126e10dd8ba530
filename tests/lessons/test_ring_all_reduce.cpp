#include <doctest/doctest.h>

#include <random>
#include <set>

#include "lessons/01_collectives/experiment/account.h"
#include "lessons/01_collectives/experiment/grid.h"
#include "lessons/01_collectives/experiment/proof.h"
#include "lessons/01_collectives/prediction.h"
#include "lessons/01_collectives/ring_all_reduce.h"
#include "tests/support/collective_checks.h"
#include "tests/support/ranks.h"

using namespace lockstep;
using namespace lockstep::testing;

namespace {

constexpr Picoseconds us = 1'000'000;

/// Sizes that N divides, sizes that N does not divide, sizes below N, and a random one.
std::vector<std::int64_t> sizes(int N, std::mt19937& random) {
  return {1, N - 1 > 0 ? N - 1 : 1, N, N + 1, 8 * N, 1000 + static_cast<int>(random() % 1000)};
}

Cluster one_node(double latency_seconds, double bandwidth) {
  Cluster cluster;
  cluster.within = {latency_seconds, bandwidth};
  return cluster;
}
Cluster nodes_of(int per_node, Link within, Link between) {
  Cluster cluster;
  cluster.nodes = 64;
  cluster.ranks_per_node = per_node;
  cluster.within = within;
  cluster.between = between;
  return cluster;
}

using Sum = std::function<void(Rank&, View)>;
void by_the_lesson(Rank& rank, View data) {
  ring_all_reduce(rank.world, rank.device, data);
}
Sum by(Algorithm algorithm) {
  return [algorithm](Rank& rank, View data) { rank.world.all_reduce(data, algorithm).wait(); };
}
void by_rings(Rank& rank, View data) {
  our_own_rings(rank).all_reduce(data).wait();
}

/// Returns the time from the common start to the last rank's end.
Picoseconds time_of(const Sum& sum, int N, std::int64_t n, const Cluster& cluster) {
  std::vector<Picoseconds> ends(static_cast<std::size_t>(N));
  const std::string failure = on_threads(modelled_options(N, cluster), [&](Rank& rank) {
    std::vector<float> values(static_cast<std::size_t>(n));
    sum(rank, view(values));
    ends[static_cast<std::size_t>(rank.id)] = rank.compute.now();
  });
  CHECK(failure == "");
  return *std::max_element(ends.begin(), ends.end());
}

}  // namespace

TEST_CASE("lesson 01: the ring's sum is the sum, and has the bits of Group's ring") {
  std::mt19937 random{1};
  for (int N = 1; N <= 8; ++N)
    for (const std::int64_t n : sizes(N, random)) {
      CAPTURE(N);
      CAPTURE(n);
      const std::string failure = on_threads(modelled_options(N), [&](Rank& rank) {
        auto sum = whole_values(rank.id, n);
        by_the_lesson(rank, view(sum));
        if (sum != sum_of_wholes(N, n)) throw RunError("another sum");
        std::vector<float> noise(static_cast<std::size_t>(n));
        check_bits(rank, rank.world, view(noise), 7, true,
                   [&](View data) { by_the_lesson(rank, data); });
        if (rank.memory.current().of(MemoryCategory::communication) != 0)
          throw RunError("scratch that is not given back");
      });
      CHECK(failure == "");
    }
}

TEST_CASE("lesson 01: a rank sends the array twice, less two chunks, as the transport counts") {
  std::mt19937 random{2};
  for (int N = 1; N <= 8; ++N)
    for (const std::int64_t n : sizes(N, random)) {
      CAPTURE(N);
      CAPTURE(n);
      ThreadRun run{modelled_options(N)};
      CHECK(run([&](Rank& rank) {
              std::vector<float> values(static_cast<std::size_t>(n));
              by_the_lesson(rank, view(values));
            }) == "");
      std::int64_t all = 0;
      for (const auto& rank : run.ranks) {
        const std::int64_t sent = rank->transport->bytes_sent()[Operation::send];
        CHECK(sent == 4 * oracle::ring(n, N, rank->id));
        CHECK(sent == 4 * elements_sent(Algorithm::ring, n, N, rank->id));
        all += sent;
      }
      CHECK(all == 4 * 2 * (N - 1) * n);
    }
}

TEST_CASE("lesson 01: each algorithm sends the predicted bytes") {
  for (const Algorithm algorithm : all_reduce_algorithms)
    for (int N = 1; N <= 9; ++N)
      for (const std::int64_t n : {1, 5, 64, 1009}) {
        CAPTURE(name_of(algorithm));
        CAPTURE(N);
        CAPTURE(n);
        ThreadRun run{modelled_options(N)};
        CHECK(run([&](Rank& rank) {
                std::vector<float> values(static_cast<std::size_t>(n));
                by(algorithm)(rank, view(values));
              }) == "");
        for (const auto& rank : run.ranks)
          CHECK(rank->transport->bytes_sent()[Operation::all_reduce] ==
                4 * elements_sent(algorithm, n, N, rank->id));
      }
}

TEST_CASE("lesson 01: the ring takes 2(N-1)(α + ⌈n/N⌉β), to the picosecond, as Group's does") {
  std::mt19937 random{3};
  for (int N = 1; N <= 8; ++N)
    for (const std::int64_t n : sizes(N, random)) {
      CAPTURE(N);
      CAPTURE(n);
      const Cluster cluster = one_node(2e-6, 1e9);  // 1 ns per byte
      const Picoseconds seen = time_of(by_the_lesson, N, n, cluster);
      CHECK(seen == 2 * (N - 1) * (2 * us + 4000 * ((n + N - 1) / N)));
      CHECK(seen == predict_all_reduce(Algorithm::ring, n, N, cluster).total());
      CHECK(seen == time_of(by(Algorithm::ring), N, n, cluster));
    }
}

TEST_CASE("lesson 01: the latency part grows with N, the bandwidth part stays below 2nβ") {
  constexpr std::int64_t n = 840;  // divisible by 1 to 8
  constexpr double none = std::numeric_limits<double>::infinity();
  for (int N = 2; N <= 8; ++N) {
    CHECK(time_of(by_the_lesson, N, n, one_node(2e-6, none)) == 2 * (N - 1) * 2 * us);
    const Picoseconds bandwidth = time_of(by_the_lesson, N, n, one_node(0, 1e9));
    CHECK(bandwidth == 2 * (4000 * n) * (N - 1) / N);
    CHECK(bandwidth < 2 * 4000 * n);
  }
}

TEST_CASE("lesson 01: on any cluster an all-reduce takes the predicted time, to the picosecond") {
  std::mt19937 random{5};
  const auto pick = [&](int least, int most) {
    return std::uniform_int_distribution<int>{least, most}(random);
  };
  const auto latency = [&] { return pick(0, 3) == 0 ? 0 : pick(1, 20'000) * 1e-9; };
  const auto bandwidth = [&] {
    return pick(0, 4) == 0 ? std::numeric_limits<double>::infinity() : pick(1, 1000) * 1e7;
  };
  const auto link = [&] {
    Link any{latency(), bandwidth()};
    if (pick(0, 3) == 0) {
      any = {.protocols = {{"simple", latency(), bandwidth()}}};
      for (int bytes = pick(1, 500); pick(0, 2) == 0; bytes += pick(1, 2000))
        any.protocols.push_back({"other", latency(), bandwidth(), bytes});
      return any;
    }
    for (int bytes = pick(1, 500); pick(0, 2) == 0; bytes += pick(1, 2000))
      any.segments.push_back({bytes, latency(), bandwidth()});
    return any;
  };
  std::set<std::string> formulas;
  for (int round = 0; round < 150; ++round) {
    const int N = pick(2, 12);
    const Cluster cluster = nodes_of(pick(1, N), link(), link());
    const std::int64_t n = pick(0, 2) == 0 ? N * pick(1, 300) : pick(1, 3000);
    CAPTURE(N);
    CAPTURE(n);
    CAPTURE(cluster.json());
    for (const Algorithm algorithm : all_reduce_algorithms) {
      CAPTURE(name_of(algorithm));
      const AllReduceTime said = predict_all_reduce(algorithm, n, N, cluster);
      CHECK(time_of(by(algorithm), N, n, cluster) == said.total());
      CHECK(play_messages(algorithm, n, N, cluster).total() == said.total());
      formulas.insert(said.formula);
    }
    CHECK(time_of(by_the_lesson, N, n, cluster) ==
          predict_all_reduce(Algorithm::ring, n, N, cluster).total());
    CHECK(time_of(by_rings, N, n, cluster) ==
          predict_all_reduce(Algorithm::rings, n, N, cluster).total());
  }
  CHECK(formulas.size() == 8);  // each closed form, and the cases without one
}

TEST_CASE("lesson 01: a ring over unlike links, by hand") {
  // Four ranks in nodes of two, with chunks of 1 KB. A message takes 1 µs + 1 µs over a near link
  // and 5 µs + 2 µs over a far one. A near hop is too short to hide the 5 µs, so no closed form
  // applies.
  const Cluster cluster = nodes_of(2, {1e-6, 1e9}, {5e-6, 5e8});
  const AllReduceTime said = predict_all_reduce(Algorithm::ring, 1000, 4, cluster);
  // Rank 1 sends its k-th message once rank 0's previous message has arrived, and so on backwards
  // around the ring. A message takes 7 µs over a far link and 2 µs over a near one; the longest
  // path is six messages in a row, of which every other one uses a far link.
  CHECK(said.total() == 3 * (7 + 2) * us);
  CHECK(said.latency == 3 * (5 + 1) * us);
  CHECK(said.bandwidth == 3 * (2 + 1) * us);
  CHECK(time_of(by_the_lesson, 4, 1000, cluster) == said.total());
}

TEST_CASE("lesson 01: one slow link sets the pace of the whole ring") {
  std::mt19937 random{4};
  for (int per_node = 2; per_node <= 4; ++per_node)
    for (int N = per_node + 2; N <= 8; ++N) {
      if (N % per_node == 1) continue;  // two slow links would be adjacent
      CAPTURE(per_node);
      CAPTURE(N);
      const std::int64_t n = N * (500 + static_cast<int>(random() % 500));
      const Picoseconds chunk = 4 * n / N * 1000;  // on the fast links
      const auto with = [&](double slow, Picoseconds alpha) {
        return time_of(by_the_lesson, N, n,
                       nodes_of(per_node, {0, 1e9}, {1e-12 * static_cast<double>(alpha), slow}));
      };
      // The ring takes as long as if all links were slow, except that the slow links' latency
      // counts only once.
      CHECK(with(1e8, 0) == 2 * (N - 1) * 10 * chunk);
      CHECK(with(1e8, 0) == time_of(by_the_lesson, N, n, one_node(0, 1e8)));
      CHECK(with(1e8, 3 * us) == 2 * (N - 1) * 10 * chunk + 3 * us);
      // Faster links between nodes save no time.
      CHECK(with(1e12, 0) == time_of(by_the_lesson, N, n, one_node(0, 1e9)));
    }
}

TEST_CASE("lesson 01: the grid shows the buffers' contents") {
  for (int N = 1; N <= 7; ++N)
    for (const std::int64_t n : {3, 40}) {
      std::string drawing;
      std::string spoilt;
      const std::string failure = on_threads(modelled_options(N), [&](Rank& rank) {
        std::vector<float> values(static_cast<std::size_t>(n), Grid::contribution(rank.id));
        Grid grid{rank.device, rank.world, view(values)};
        ring_all_reduce(rank.world, rank.device, view(values),
                        [&](const RingStep& step) { grid.note(step); });
        const std::string drawn = grid.draw(*rank.transport, {.width = 200});
        if (rank.id == N - 1) values.back() += 1;
        Grid again{rank.device, rank.world, view(values)};
        again.note({.done = 1, .steps = 1});
        const std::string other = again.draw(*rank.transport, {});
        if (rank.id == 0) drawing = drawn;
        if (rank.id == 0) spoilt = other;
      });
      CHECK(failure == "");
      // Checks only the part above the legend.
      CHECK(drawing.substr(0, drawing.find("k: the sum")).find('?') == std::string::npos);
      CHECK(drawing.find('\033') == std::string::npos);
      CHECK(spoilt.substr(0, spoilt.find("k: the sum")).find('?') != std::string::npos);
      CHECK((drawing.find("all_gather 1/") != std::string::npos) == (N > 1));
      if (N == 4 && n == 40) {
        CHECK(drawing.find("rank 0  0    0    0    0      0    0    30   0      0    230  30   0  "
                           "    1230 230  30   0") != std::string::npos);
        CHECK(drawing.find("3012 3012 3012 3012\n") != std::string::npos);
      }
    }
}

TEST_CASE("lesson 01: a wrong ring is detected") {
  const auto complaint = [](const Sum& sum, bool like_the_group) {
    return on_threads(modelled_options(4), [&](Rank& rank) {
      std::vector<float> values(1000);
      check_bits(rank, rank.world, view(values), 1, like_the_group,
                 [&](View data) { sum(rank, data); });
    });
  };
  const auto bits = [](const std::string& text) {
    return text.find("other bits") != std::string::npos;
  };
  CHECK(complaint(by_the_lesson, true) == "");
  CHECK(bits(complaint([](Rank&, View) {}, true)));
  CHECK(bits(complaint([](Rank&, View) {}, false)));
  CHECK(bits(complaint(by(Algorithm::recursive_doubling), true)));  // not bitwise identical
  CHECK(complaint(by(Algorithm::recursive_doubling), false) == "");

  const std::string sum = on_threads(modelled_options(3), [&](Rank& rank) {
    std::vector<float> values(9, contribution(rank.id, 3));
    if (rank.id == 1) values[4] += 1;
    by_the_lesson(rank, view(values));
    check_sum(rank, view(values));
  });
  CHECK(sum.find("element 4 of the sum is 8 instead of 7") != std::string::npos);
}
