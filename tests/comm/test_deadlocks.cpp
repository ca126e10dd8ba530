#include <doctest/doctest.h>

#include <atomic>
#include <chrono>

#include "tests/support/mismatches.h"
#include "tests/support/ranks.h"

// Every deadlock is reported immediately, as the cycle of ranks that wait for each other, with each
// rank's operation and source line.

using namespace lockstep;
using namespace lockstep::testing;

namespace {

/// Runs a program that must fail, and returns its failure.
std::string failure_of(int ranks, const std::function<void(Rank&, ThreadRun&)>& body) {
  ThreadRun run{modelled_options(ranks), 60};  // ends the run if the deadlock is not detected
  return run([&](Rank& rank) { body(rank, run); });
}

std::string at(int line) {
  return "(test_deadlocks.cpp:" + std::to_string(line) + ")";
}

Group group_of(Rank& rank, std::vector<int> ranks, const std::string& name) {
  return {rank.endpoint, std::move(ranks), name,
          rank.transport->open_channels(Group::channels_taken)};
}

}  // namespace

TEST_CASE(
    "deadlock: a receive without a send, from a rank that has finished or from one that waits") {
  std::atomic<int> line = 0;
  const std::string finished = failure_of(2, [&](Rank& rank, ThreadRun&) {
    std::vector<float> values(5);
    if (rank.id == 1) return;
    line = __LINE__ + 1;
    rank.world.receive(view(values), 1).wait();
  });
  CHECK(finished ==
        "rank 0 waits for rank 1 to send 20 bytes " + at(line) + ", which has finished");

  const std::string circle = failure_of(3, [&](Rank& rank, ThreadRun&) {
    std::vector<float> values(5);
    line = __LINE__ + 1;
    rank.world.receive(view(values), (rank.id + 1) % 3).wait();
  });
  CHECK(circle == "deadlock\n  rank 0 waits for rank 1 to send 20 bytes " + at(line) +
                      "\n  rank 1 waits for rank 2 to send 20 bytes " + at(line) +
                      "\n  rank 2 waits for rank 0 to send 20 bytes " + at(line));
}

TEST_CASE("deadlock: every rank sends first") {
  for (const int ranks : {2, 3, 7}) {
    std::atomic<int> line = 0;
    const std::string failure = failure_of(ranks, [&](Rank& rank, ThreadRun&) {
      std::vector<float> out(5), in(5);
      line = __LINE__ + 1;
      rank.world.send(view(out), (rank.id + 1) % ranks).wait();
      rank.world.receive(view(in), (rank.id + ranks - 1) % ranks).wait();
    });
    for (int rank = 0; rank < ranks; ++rank)
      CHECK(missing(failure, {fmt::format("rank {} waits for rank {} to receive 20 bytes {}", rank,
                                          (rank + 1) % ranks, at(line))}) == "");
  }
}

TEST_CASE("deadlock: the number of ranks that wait to send and to receive") {
  std::vector<float> values(5);
  const auto found = [&](const std::function<void(Rank&)>& body) {
    ThreadRun run{modelled_options(3), 60};
    run(body);
    return run.fabric.deadlock();
  };
  const auto sending =
      found([&](Rank& rank) { rank.world.send(view(values), (rank.id + 1) % 3).wait(); });
  REQUIRE(sending);
  CHECK(sending->sending == 3);
  CHECK(sending->receiving == 0);
  CHECK_FALSE(sending->for_finished);

  const auto mixed = found([&](Rank& rank) {
    if (rank.id == 0) rank.world.send(view(values), 1).wait();
    if (rank.id == 1) rank.world.receive(view(values), 2).wait();
    if (rank.id == 2) rank.world.receive(view(values), 0).wait();
  });
  REQUIRE(mixed);
  CHECK(mixed->sending == 1);
  CHECK(mixed->receiving == 2);

  const auto finished = found([&](Rank& rank) {
    if (rank.id == 0) rank.world.receive(view(values), 1).wait();
  });
  REQUIRE(finished);
  CHECK(finished->for_finished);
  CHECK(finished->receiving == 1);

  CHECK_FALSE(found([](Rank& rank) {
    if (rank.id == 0) throw std::runtime_error("no deadlock");
  }));
}

TEST_CASE("deadlock: two collectives in opposite order on two groups") {
  std::atomic<int> line = 0;
  const std::string failure = failure_of(2, [&](Rank& rank, ThreadRun&) {
    Group a = group_of(rank, {0, 1}, "a");
    Group b = group_of(rank, {0, 1}, "b");
    std::vector<float> values(8);
    line = __LINE__ + 1;
    (rank.id == 0 ? a : b).all_reduce(view(values)).wait();
    (rank.id == 0 ? b : a).all_reduce(view(values)).wait();
  });
  CHECK(missing(failure, {"deadlock\n", "rank 0 waits for rank 1", "in all_reduce of a " + at(line),
                          "rank 1 waits for rank 0", "in all_reduce of b " + at(line)}) == "");
}

TEST_CASE("deadlock: three groups in a circle, each rank in two of them") {
  const std::string failure = failure_of(3, [&](Rank& rank, ThreadRun&) {
    std::vector<float> values(8);
    std::vector<std::unique_ptr<Group>> groups(3);
    for (int g = 0; g < 3; ++g) {
      const int channels = rank.transport->open_channels(Group::channels_taken);
      if (rank.id == g || rank.id == (g + 1) % 3)
        groups[static_cast<std::size_t>(g)] = std::make_unique<Group>(
            rank.endpoint, std::vector{g, (g + 1) % 3}, "g" + std::to_string(g), channels);
    }
    // Group g contains ranks g and g + 1. Each rank begins with the group that it shares with the
    // next rank.
    groups[static_cast<std::size_t>(rank.id)]->barrier().wait();
    groups[static_cast<std::size_t>((rank.id + 2) % 3)]->barrier().wait();
  });
  CHECK(missing(failure, {"deadlock\n", "rank 0 waits for rank 1", "in barrier of g0",
                          "rank 1 waits for rank 2", "in barrier of g1", "rank 2 waits for rank 0",
                          "in barrier of g2"}) == "");
}

TEST_CASE("deadlock: a collective whose member has finished, and one that a member dropped") {
  std::atomic<int> line = 0;
  const std::string failure = failure_of(3, [&](Rank& rank, ThreadRun&) {
    std::vector<float> values(8);
    if (rank.id == 1) return;
    line = __LINE__ + 1;
    rank.world.all_reduce(view(values)).wait();
  });
  CHECK(missing(failure, {"rank 1", "in all_reduce of world " + at(line), "has finished"}) == "");

  const std::string dropped = failure_of(3, [&](Rank& rank, ThreadRun&) {
    std::vector<float> values(8);
    Work sum = rank.world.all_reduce(view(values));
    if (rank.id != 1) sum.wait();
  });
  // (Rank 1 may have finished its part before it dropped its Work.)
  if (dropped != "")
    CHECK(missing(dropped, {"rank 1", "in all_reduce of world", "has finished"}) == "");
}

TEST_CASE("deadlock: a rank's own thread and workers in one cycle") {
  std::atomic<int> all = 0;
  std::atomic<int> one = 0;
  const std::string failure = failure_of(3, [&](Rank& rank, ThreadRun&) {
    std::vector<float> values(8), other(8);
    if (rank.id == 0) {
      all = __LINE__ + 1;
      rank.world.all_reduce(view(values)).wait();  // rank 2 never joins
      rank.world.send(view(other), 2).wait();
    } else if (rank.id == 1) {
      rank.world.all_reduce(view(values)).wait();
    } else {
      one = __LINE__ + 1;
      rank.world.receive(view(other), 0).wait();  // rank 0 sends only after its all_reduce
      rank.world.all_reduce(view(values)).wait();
    }
  });
  CHECK(missing(failure, {"deadlock\n", "rank 2 waits for rank 0 to send 32 bytes " + at(one),
                          "in all_reduce of world " + at(all)}) == "");
}

TEST_CASE("deadlock: a job that waits behind another job of its group") {
  std::atomic<int> line = 0;
  const std::string failure = failure_of(2, [&](Rank& rank, ThreadRun&) {
    Group a = group_of(rank, {0, 1}, "a");
    Group b = group_of(rank, {0, 1}, "b");
    std::vector<float> values(8), other(8), more(8);
    if (rank.id == 0) {
      Work first = a.all_reduce(view(values));
      line = __LINE__ + 1;
      Work second = a.all_reduce(view(other));
      second.wait();  // rank 1 has not issued the first all_reduce
      b.all_reduce(view(more)).wait();
    } else {
      b.all_reduce(view(more)).wait();
      a.all_reduce(view(values)).wait();
      a.all_reduce(view(other)).wait();
    }
  });
  CHECK(missing(failure, {"deadlock\n", "rank 0 waits for its own all_reduce of a " + at(line),
                          "rank 1 waits for rank 0", "in all_reduce of b"}) == "");
}

TEST_CASE("deadlock: a job queued behind one that was dropped") {
  const std::string failure = failure_of(2, [&](Rank& rank, ThreadRun&) {
    std::vector<float> values(8), other(8), more(8);
    if (rank.id == 0) {
      Work first = rank.world.all_reduce(view(values));
      Work second = rank.world.all_reduce(view(other));
      for (int i = 0; i < 2; ++i) Work dropped = rank.world.all_reduce(view(more));
      second.wait();
    } else {
      rank.world.receive(view(other), 0).wait();
    }
  });
  CHECK(missing(failure, {"deadlock\n", "rank 0 waits for its own all_reduce of world",
                          "rank 1 waits for rank 0 to send 32 bytes"}) == "");
}

TEST_CASE("deadlock: a cycle that closes when a worker finishes its last job") {
  const std::string failure = failure_of(3, [&](Rank& rank, ThreadRun& run) {
    Group pair = rank.id == 1 ? group_of(rank, {1}, "alone") : group_of(rank, {0, 2}, "pair");
    std::vector<float> values(5), other(5);
    Work sum;
    if (rank.id != 1) {
      // Until rank 0's worker is idle, the worker could still send to rank 1.
      if (rank.id == 2) std::this_thread::sleep_for(std::chrono::milliseconds{30});
      sum = pair.all_reduce(view(values));
    }
    if (rank.id == 2) return run.sleep_until_failure();
    rank.world.receive(view(other), 1 - rank.id).wait();
  });
  CHECK(missing(failure, {"deadlock\n", "rank 0 waits for rank 1", "rank 1 waits for rank 0"}) ==
        "");
}

TEST_CASE("deadlock: two ranks, while a third keeps running") {
  for (const bool collective : {false, true}) {
    const std::string failure = failure_of(3, [&](Rank& rank, ThreadRun& run) {
      Group pair = rank.id < 2 ? group_of(rank, {0, 1}, "pair") : group_of(rank, {2}, "alone");
      std::vector<float> values(5), other(5);
      if (rank.id == 2) {
        run.sleep_until_failure();
      } else if (collective && rank.id == 0) {
        pair.all_reduce(view(values)).wait();
      } else {
        pair.receive(view(other), 1 - rank.id).wait();
      }
    });
    CHECK(missing(failure, {"deadlock\n", "rank 0 waits for rank 1", "rank 1 waits for rank 0"}) ==
          "");
    CHECK(failure.find("rank 2") == std::string::npos);
  }
}

TEST_CASE("deadlock: detected when it closes, not after the time-out") {
  constexpr double timeout = 600;
  ThreadRun run{modelled_options(2), timeout};
  const auto begin = std::chrono::steady_clock::now();
  const std::string failure = run([&](Rank& rank) {
    std::vector<float> values(5);
    if (rank.id == 1) std::this_thread::sleep_for(std::chrono::milliseconds{30});
    rank.world.receive(view(values), 1 - rank.id).wait();
  });
  CHECK(failure.starts_with("deadlock"));
  CHECK(std::chrono::steady_clock::now() - begin < std::chrono::duration<double>{timeout / 2});
}
