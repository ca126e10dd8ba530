#include <doctest/doctest.h>

#include <chrono>
#include <cstdlib>
#include <random>
#include <thread>
#include <vector>

#include "core/comm/threads/thread_fabric.h"
#include "core/run/launch/clock_offset.h"
#include "core/time/clock.h"

using namespace lockstep;

namespace {

/// Calls `body(rank, transport)` on one thread per rank.
template <class Body>
void on_ranks(int count, Body&& body) {
  ThreadFabric fabric{count};
  std::vector<std::thread> threads;
  for (int rank = 0; rank < count; ++rank)
    threads.emplace_back([&, rank] {
      const auto transport = fabric.endpoint(rank);
      body(rank, *transport);
      fabric.finish(rank);
    });
  for (std::thread& thread : threads) thread.join();
  CHECK(fabric.failure() == "");
}

}  // namespace

TEST_CASE("an offset is wrong by no more than its uncertainty, however asymmetric the round trip") {
  std::mt19937_64 random{7};
  const auto up_to = [&](std::int64_t most) {
    return std::uniform_int_distribution<std::int64_t>{0, most}(random);
  };
  for (int round = 0; round < 1000; ++round) {
    const std::int64_t offset = up_to(1'000'000'000'000) - 500'000'000'000;
    std::vector<ClockExchange> exchanges;
    std::int64_t shortest = 1LL << 60;
    for (std::int64_t i = up_to(5), time = up_to(1'000'000'000); i >= 0; --i) {
      const std::int64_t there = up_to(1'000'000), back = up_to(round % 2 == 0 ? 100 : 1'000'000);
      exchanges.push_back({time + offset, time + there, time + there + back + offset});
      shortest = std::min(shortest, there + back);
      time += 2'000'000;
    }
    const ClockOffset found = best_offset(exchanges);
    CHECK(std::abs(found.offset_ns - offset) <= found.uncertainty_ns);
    CHECK(found.uncertainty_ns == (shortest + 1) / 2);
  }
  CHECK(best_offset({}).offset_ns == 0);
  CHECK(best_offset({}).uncertainty_ns == 0);
  CHECK(best_offset({{100, 50, 103}}).offset_ns == 51);  // 51.5 ± 1.5
  CHECK(best_offset({{100, 50, 103}}).uncertainty_ns == 2);
}

TEST_CASE("ranks learn each host's clock, and ranks of one host share it") {
  // Ranks 0 and 2 share a host. Ranks 1 and 4 share another host, whose clock is far ahead. Rank 3
  // is on a third host, whose clock is behind.
  const std::string hosts[] = {"a", "b", "a", "c", "b"};
  const std::int64_t ahead[] = {0, 3'600'000'000'000, 0, -5'000'000'000, 3'600'000'000'000};
  std::vector<std::vector<HostClock>> found(5);
  on_ranks(5, [&](int rank, Transport& transport) {
    // Messages are slow in one direction only: a delay follows each reading of rank 3's clock.
    const auto now = [&] {
      const std::int64_t time = steady_nanoseconds() + ahead[rank];
      if (rank == 3) std::this_thread::sleep_for(std::chrono::milliseconds{1});
      return time;
    };
    found[static_cast<std::size_t>(rank)] =
        measure_clocks(transport, hosts[rank], "clock of " + hosts[rank], now, 5);
  });
  for (const auto& clocks : found) {
    REQUIRE(clocks.size() == 5);
    for (std::size_t rank = 0; rank < 5; ++rank) {
      CAPTURE(rank);
      const ClockOffset offset = clocks[rank].offset;
      CHECK(clocks[rank].host == hosts[rank]);
      CHECK(std::abs(offset.offset_ns - ahead[rank]) <= offset.uncertainty_ns);
      CHECK((offset.uncertainty_ns == 0) == (hosts[rank] == "a"));
      CHECK(offset.offset_ns == found[0][rank].offset.offset_ns);
    }
    CHECK(clocks[1].offset.offset_ns == clocks[4].offset.offset_ns);
    CHECK(clocks[1].offset.uncertainty_ns == clocks[4].offset.uncertainty_ns);
    CHECK(clocks[3].offset.uncertainty_ns >= 500'000);  // half the delay
  }
}

TEST_CASE("on one host no rank measures an offset") {
  on_ranks(3, [&](int, Transport& transport) {
    const auto never = []() -> std::int64_t { throw std::runtime_error("asked"); };
    for (const HostClock& each : measure_clocks(transport, "a", this_clock(), never)) {
      CHECK(each.offset.offset_ns == 0);
      CHECK(each.offset.uncertainty_ns == 0);
    }
  });
  CHECK(this_clock() == this_clock());
  CHECK_FALSE(this_clock().empty());
}
