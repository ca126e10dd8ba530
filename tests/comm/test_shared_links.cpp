#include <doctest/doctest.h>

#include <atomic>
#include <thread>

#include "core/base/error.h"
#include "tests/comm/random_programs.h"
#include "tests/support/meta_checks.h"
#include "tests/support/portion.h"
#include "tests/support/watchdog.h"

// Runs on clusters with shared links (Cluster::shared).

using namespace lockstep;
using namespace lockstep::testing;

namespace {

/// Nodes of three ranks; each rank has a port, and the three share one card.
Cluster sharing_cluster() {
  Cluster cluster{.name = "sharing",
                  .nodes = 64,
                  .ranks_per_node = 3,
                  .flops = 1e9,
                  .within = {2e-6, 8e8},
                  .between = {5e-6, 4e8}};
  cluster.shared = SharedLinks{.port = 1e9, .cards = SharedLinks::Cards{1, 3e8, {0, 0, 0}}};
  return cluster;
}

/// Ranks that compute for different times, and then all sum the same arrays in two groups at once.
void busy_program(Rank& rank, const Note& note) {
  const std::vector<int> everybody{0, 1, 2, 3, 4, 5};
  Group other{rank.endpoint, everybody, "others",
              rank.transport->open_channels(Group::channels_taken)};
  Tensor a{rank.memory, {5000}, MemoryCategory::communication};
  Tensor b{rank.memory, {3001}, MemoryCategory::communication};
  for (int round = 0; round < 4; ++round) {
    rank.compute.launch({.name = "work", .category = Category::kernel},
                        {.flops = 1e3 * (1 + (rank.id * 7 + round) % 5)},
                        [](const Kernels&, Queue) {});
    Work first = rank.world.all_reduce(a), second = other.all_gather(b);
    const int next = (rank.id + 1) % rank.count, before = (rank.id + rank.count - 1) % rank.count;
    Tensor c{rank.memory, {100 + round}, MemoryCategory::communication};
    Tensor d{rank.memory, {100 + round}, MemoryCategory::communication};
    Work sent = rank.world.send(c, next);
    rank.world.receive(d, before).wait();
    note();
    second.wait();
    note();
    first.wait();
    sent.wait();
    note();
  }
}

}  // namespace

TEST_CASE("shared links: 20 repeats under load give the same times, on the CPU and on meta") {
  std::atomic<bool> over = false;
  std::vector<std::thread> load;
  for (int i = 0; i < 4; ++i)
    load.emplace_back([&] {
      while (!over) std::atomic_thread_fence(std::memory_order_seq_cst);
    });
  Options options = modelled_options(6, sharing_cluster());
  std::optional<std::vector<Seen>> first;
  for (int repeat = 0; repeat < 20; ++repeat) {
    std::string failure;
    const auto seen =
        seen_by_all(repeat % 2 == 0 ? options : on_meta(options), busy_program, failure);
    CHECK(failure == "");
    if (!first) first = seen;
    for (std::size_t rank = 0; rank < seen.size(); ++rank)
      CHECK_MESSAGE(difference((*first)[rank], seen[rank]) == "", "rank ", rank, ": ",
                    difference((*first)[rank], seen[rank]));
  }
  over = true;
  for (std::thread& each : load) each.join();
}

TEST_CASE("shared links: a kernel that starts beside a collective takes longer") {
  Cluster cluster = sharing_cluster();
  cluster.flops = 1e9;
  cluster.within = {0, 1e9};
  cluster.shared = SharedLinks{.kernels_beside_collectives = 1.5};
  Options options = modelled_options(2, cluster);
  for (const char* device : {"cpu", "meta"}) {
    options.platform.device = device;
    // 2500 elements: each rank sends two halves of 5,000 bytes, one after the other, in 10 µs. A
    // kernel takes 4 µs, or 6 beside the collective, which ends at 10.
    std::string failure;
    const auto seen = seen_by_all(
        options,
        [](Rank& rank, const Note& note) {
          Tensor data{rank.memory, {2500}, MemoryCategory::communication};
          const auto kernel = [&] {
            rank.compute.launch({.name = "work", .category = Category::kernel}, {.flops = 4000},
                                [](const Kernels&, Queue) {});
            note();
          };
          kernel();
          Work sum = rank.world.all_reduce(data);
          for (int i = 0; i < 3; ++i) kernel();
          sum.wait();
          note();
        },
        failure);
    CHECK(failure == "");
    for (const Seen& rank : seen)
      CHECK(rank.times == std::vector<Picoseconds>{4'000'000, 10'000'000, 16'000'000, 20'000'000,
                                                   20'000'000, 20'000'000});
  }
}

TEST_CASE("shared links: random programs run through, and their values are right") {
  const unsigned programs = portion_of(600U, 150U);
  for (unsigned seed = 1; seed <= programs; ++seed) {
    const Program program = random_program((seed + 1) / 2);
    Options options = modelled_options(program.ranks, sharing_cluster());
    options.platform.device = seed % 2 == 0 ? "cpu" : "meta";
    ThreadRun run{options};
    const Watchdog watchdog{run.fabric, 60};
    const std::string failure = run([&](Rank& rank) { Player{rank, program}.play(); });
    CHECK_MESSAGE(failure == "", "seed ", seed, ": ", failure);
  }
}

TEST_CASE("shared links: a rank that receives what nobody sends is a deadlock") {
  for (const char* device : {"cpu", "meta"}) {
    Options options = modelled_options(3, sharing_cluster());
    options.platform.device = device;
    const std::string failure = on_threads(options, [](Rank& rank) {
      Tensor data{rank.memory, {100}, MemoryCategory::communication};
      rank.world.all_reduce(data).wait();
      if (rank.id == 2) return;
      rank.world.receive(data, 1 - rank.id).wait();
    });
    CHECK_MESSAGE(failure.starts_with("deadlock\n  rank 0 waits"), failure);
  }
}

TEST_CASE("a collective above 46 days of modelled time is an impossible request") {
  for (const bool shares : {false, true})
    for (const char* device : {"cpu", "meta"}) {
      Cluster slow = sharing_cluster();
      slow.within.bandwidth = 1e-5;
      if (!shares) slow.shared.reset();
      Options options = modelled_options(2, slow);
      options.platform.device = device;
      ThreadRun run{options};
      std::exception_ptr first;
      run.made.run(
          [](Rank& rank) {
            Tensor data{rank.memory, {100}, MemoryCategory::communication};
            rank.world.all_reduce(data).wait();
          },
          [&](std::exception_ptr error) { first = std::move(error); });
      CHECK_MESSAGE(run.fabric.failure().find("46 days") != std::string::npos,
                    run.fabric.failure());
      REQUIRE(first);
      CHECK_THROWS_AS(std::rethrow_exception(first), UsageError);
    }
}

TEST_CASE("shared links: a rank that leaves out a collective is named") {
  for (const char* device : {"cpu", "meta"}) {
    Options options = modelled_options(3, sharing_cluster());
    options.platform.device = device;
    const std::string failure = on_threads(options, [](Rank& rank) {
      Tensor data{rank.memory, {100}, MemoryCategory::communication};
      if (rank.id != 1) rank.world.all_reduce(data).wait();
    });
    CHECK_MESSAGE(failure.find("rank 1") != std::string::npos, failure);
    CHECK_MESSAGE(failure.find("which has finished") != std::string::npos, failure);
  }
}

TEST_CASE("shared links: the rank that stalls is named, not those that wait for times") {
  for (const char* device : {"cpu", "meta"}) {
    Options options = modelled_options(3, sharing_cluster());
    options.platform.device = device;
    ThreadRun run{options, 0.3};
    const std::string failure = run([&](Rank& rank) {
      Tensor data{rank.memory, {100}, MemoryCategory::communication};
      rank.world.all_reduce(data).wait();
      if (rank.id == 2) return run.sleep_until_failure();
      Work sent = rank.world.send(data, 1 - rank.id);
      Tensor in{rank.memory, {100}, MemoryCategory::communication};
      rank.world.receive(in, 1 - rank.id).wait();
      sent.wait();
    });
    CHECK_MESSAGE(failure.starts_with("rank 2 has stalled"), failure);
  }
}
