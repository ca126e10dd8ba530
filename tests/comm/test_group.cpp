#include <doctest/doctest.h>

#include "tests/support/collective_checks.h"
#include "tests/support/ranks.h"

using namespace lockstep;
using namespace lockstep::testing;

namespace {

constexpr Picoseconds us = 1'000'000;

/// 2 µs a message, 1 byte a nanosecond.
Cluster plain_cluster() {
  Cluster cluster;
  cluster.within = {2e-6, 1e9};
  return cluster;
}

}  // namespace

TEST_CASE(
    "modelled: a collective begins where it was issued, and overlaps until it is waited for") {
  std::vector<Picoseconds> ends(2);
  FixedTimes times;
  times.set(Category::forward, 10 * us);
  const std::string failure =
      on_threads(modelled_options(2, plain_cluster(), times), [&](Rank& rank) {
        std::vector<float> values(500);
        Work sum = rank.world.all_reduce(view(values));  // 2 (2 + 1) µs
        rank.compute.range({.name = "compute", .category = Category::forward}, [] {});
        sum.wait();
        ends[static_cast<std::size_t>(rank.id)] = rank.compute.now();
      });
  CHECK(failure == "");
  CHECK(ends == std::vector<Picoseconds>{10 * us, 10 * us});
}

TEST_CASE("modelled: a root that gathers pays for every message") {
  constexpr int ranks = 5;
  Picoseconds end = 0;
  const std::string failure = on_threads(modelled_options(ranks, plain_cluster()), [&](Rank& rank) {
    std::vector<float> values(1000);  // 4 µs on a lane
    if (rank.id != 0) {
      rank.world.send(view(values), 0).wait();
      return;
    }
    for (int from = 1; from < ranks; ++from) rank.world.receive(view(values), from).wait();
    end = rank.compute.now();
  });
  CHECK(failure == "");
  CHECK(end == 2 * us + 4 * (ranks - 1) * us);
}

TEST_CASE("a group's spans can be read after it is gone") {
  std::string name;
  const std::string failure = on_threads(modelled_options(2, plain_cluster()), [&](Rank& rank) {
    {
      Group brief{rank.endpoint,
                  {0, 1},
                  std::string("a group of two, with a long name"),
                  rank.transport->open_channels(Group::channels_taken)};
      brief.barrier().wait();
    }
    if (rank.id != 0) return;
    for (const TraceEvent& event : rank.trace.drain())
      if (event.span.group != nullptr) name = event.span.group;
  });
  CHECK(failure == "");
  CHECK(name == "a group of two, with a long name");
}
