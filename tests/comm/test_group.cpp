#include <doctest/doctest.h>

#include "tests/support/collective_checks.h"
#include "tests/support/ranks.h"
#include "tests/support/timeline_of.h"
#include "viz/read/timeline/step_account.h"

using namespace lockstep;
using namespace lockstep::testing;

namespace {

constexpr Picoseconds microsecond = 1'000'000;

/// A cluster with 2 µs of latency per message and a bandwidth of 1 byte per nanosecond.
Cluster plain_cluster() {
  Cluster cluster;
  cluster.within = {2e-6, 1e9};
  return cluster;
}

}  // namespace

TEST_CASE(
    "modelled: a collective begins at the time of issue, and overlaps with compute until wait()") {
  std::vector<Picoseconds> ends(2);
  FixedTimes times;
  times.set(Category::forward, 10 * microsecond);
  const std::string failure =
      on_threads(modelled_options(2, plain_cluster(), times), [&](Rank& rank) {
        std::vector<float> values(500);
        Work sum = rank.world.all_reduce(view(values));  // takes 2 (2 + 1) µs
        rank.compute.range({.name = "compute", .category = Category::forward}, [] {});
        sum.wait();
        ends[static_cast<std::size_t>(rank.id)] = rank.compute.now();
      });
  CHECK(failure == "");
  CHECK(ends == std::vector<Picoseconds>{10 * microsecond, 10 * microsecond});
}

TEST_CASE("modelled: a step's parts are transfer, latency and a late peer, as computed by hand") {
  FixedTimes times;
  times.set(Category::forward, 10 * microsecond);
  ThreadRun run{modelled_options(2, plain_cluster(), times)};
  const std::string failure = run([&](Rank& rank) {
    rank.trace.set_step(0);
    const auto compute = [&] {
      rank.compute.range({.name = "compute", .category = Category::forward}, [] {});
    };
    std::vector<float> values(1000);  // occupy a lane for 4 µs; the latency is 2 µs
    if (rank.id == 0) {
      compute();
      rank.world.send(view(values), 1).wait();
    } else {
      rank.world.receive(view(values), 0).wait();
      compute();
    }
  });
  CHECK(failure == "");
  const StepAccount account = step_account(timeline_of(run), 0);
  REQUIRE(account.ranks.size() == 2);
  CHECK(account.length == 26 * microsecond);
  const StepSums &sender = account.ranks[0].sums, &receiver = account.ranks[1].sums;
  CHECK(sender.compute == 10 * microsecond);
  CHECK(sender.exposed() == Exposed{4 * microsecond, 0, 0});
  CHECK(sender.ended == 12 * microsecond);
  CHECK(receiver.compute == 10 * microsecond);
  // A late peer: rank 0 computes meanwhile.
  CHECK(receiver.exposed() == Exposed{4 * microsecond, 2 * microsecond, 10 * microsecond});
  CHECK(receiver.ended == 0);
}

TEST_CASE("modelled: a root that gathers pays for every message") {
  constexpr int ranks = 5;
  Picoseconds end = 0;
  const std::string failure = on_threads(modelled_options(ranks, plain_cluster()), [&](Rank& rank) {
    std::vector<float> values(1000);  // occupy a lane for 4 µs
    if (rank.id != 0) {
      rank.world.send(view(values), 0).wait();
      return;
    }
    for (int from = 1; from < ranks; ++from) rank.world.receive(view(values), from).wait();
    end = rank.compute.now();
  });
  CHECK(failure == "");
  CHECK(end == 2 * microsecond + 4 * (ranks - 1) * microsecond);
}

TEST_CASE("a group's spans can be read after it is destroyed") {
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
