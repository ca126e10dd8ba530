#include <doctest/doctest.h>

#include <mutex>
#include <numeric>
#include <random>

#include "tests/support/ranks.h"

using namespace lockstep;
using lockstep::testing::modelled_options;
using lockstep::testing::on_threads;

namespace {

constexpr Picoseconds us = 1'000'000;

/// 2 µs a message, 1 byte a nanosecond.
Cluster plain_cluster() {
  Cluster cluster;
  cluster.within = {2e-6, 1e9};
  return cluster;
}

/// Whole numbers, so that sums are exact in any order.
std::vector<float> values_of(int rank, std::int64_t count) {
  std::vector<float> values(static_cast<std::size_t>(count));
  for (std::size_t i = 0; i < values.size(); ++i)
    values[i] = static_cast<float>((static_cast<std::size_t>(rank) * 31 + i * 7) % 101);
  return values;
}

std::vector<float> sum_of_all(int ranks, std::int64_t count) {
  std::vector<float> sum(static_cast<std::size_t>(count));
  for (int rank = 0; rank < ranks; ++rank) {
    const auto values = values_of(rank, count);
    std::transform(sum.begin(), sum.end(), values.begin(), sum.begin(), std::plus<>{});
  }
  return sum;
}

View view(std::vector<float>& values) {
  return {values.data(), {static_cast<std::int64_t>(values.size())}};
}

/// Where chunk i of n elements begins, worked out anew.
std::int64_t chunk_begin(std::int64_t n, int ranks, int i) {
  std::int64_t begin = 0;
  for (int k = 0; k < i; ++k) begin += n / ranks + (k < n % ranks ? 1 : 0);
  return begin;
}

/// The chunk of i alone, all else left as `otherwise`.
bool same_chunk(const std::vector<float>& got, const std::vector<float>& want, int ranks, int i) {
  const auto n = static_cast<std::int64_t>(want.size());
  return std::equal(want.begin() + chunk_begin(n, ranks, i),
                    want.begin() + chunk_begin(n, ranks, i + 1),
                    got.begin() + chunk_begin(n, ranks, i));
}

}  // namespace

TEST_CASE("collectives equal a serial oracle, and send what their formulas say") {
  for (int ranks = 1; ranks <= 8; ++ranks) {
    for (const std::int64_t count : {0, 1, 2, 7, 64, 1009}) {
      CAPTURE(ranks);
      CAPTURE(count);
      std::mutex mutex;
      std::vector<std::string> wrong;
      std::int64_t reduced_bytes = 0, gathered_bytes = 0, scattered_bytes = 0, broadcast_bytes = 0;
      const auto want = sum_of_all(ranks, count);
      const std::string failure =
          on_threads(modelled_options(ranks, plain_cluster()), [&](Rank& rank) {
            auto reduced = values_of(rank.id, count);
            rank.world.all_reduce(view(reduced)).wait();
            auto scattered = values_of(rank.id, count);
            rank.world.reduce_scatter(view(scattered)).wait();
            auto gathered = scattered;
            for (int i = 0; i < ranks; ++i)
              if (i != rank.id)
                std::fill(gathered.begin() + chunk_begin(count, ranks, i),
                          gathered.begin() + chunk_begin(count, ranks, i + 1), -1.0F);
            rank.world.all_gather(view(gathered)).wait();
            const int root = ranks / 2;
            auto news = values_of(rank.id, count);
            rank.world.broadcast(view(news), root).wait();

            std::lock_guard lock{mutex};
            if (reduced != want) wrong.push_back("all_reduce");
            if (!same_chunk(scattered, want, ranks, rank.id)) wrong.push_back("reduce_scatter");
            if (gathered != want) wrong.push_back("all_gather");
            if (news != values_of(root, count)) wrong.push_back("broadcast");
            const auto sent = [&](const char* name) { return rank.transport->bytes_sent()[name]; };
            reduced_bytes += sent("all_reduce");
            gathered_bytes += sent("all_gather");
            scattered_bytes += sent("reduce_scatter");
            broadcast_bytes += sent("broadcast");
          });
      CHECK(failure == "");
      CHECK(wrong == std::vector<std::string>{});
      // Over all ranks: each chunk travels N - 1 hops, and so in all (N - 1) n elements.
      CHECK(scattered_bytes == (ranks - 1) * count * 4);
      CHECK(gathered_bytes == (ranks - 1) * count * 4);
      CHECK(reduced_bytes == 2 * (ranks - 1) * count * 4);
      CHECK(broadcast_bytes == (ranks - 1) * count * 4);
    }
  }
}

TEST_CASE("modelled: a ring all-reduce takes 2 (N - 1) (latency + n / N bytes)") {
  for (int ranks : {2, 3, 4, 8}) {
    std::vector<Picoseconds> ends(static_cast<std::size_t>(ranks));
    std::vector<Picoseconds> barriers(static_cast<std::size_t>(ranks));
    const std::string failure =
        on_threads(modelled_options(ranks, plain_cluster()), [&](Rank& rank) {
          std::vector<float> values(static_cast<std::size_t>(250 * ranks));
          rank.world.all_reduce(view(values)).wait();
          ends[static_cast<std::size_t>(rank.id)] = rank.compute.now();
          rank.world.barrier().wait();
          barriers[static_cast<std::size_t>(rank.id)] =
              rank.compute.now() - ends[static_cast<std::size_t>(rank.id)];
        });
    CHECK(failure == "");
    const int rounds = ranks == 2 ? 1 : ranks <= 4 ? 2 : 3;
    for (int rank = 0; rank < ranks; ++rank) {
      CHECK(ends[static_cast<std::size_t>(rank)] == 2 * (ranks - 1) * (2 * us + 1 * us));
      CHECK(barriers[static_cast<std::size_t>(rank)] == rounds * 2 * us);
    }
  }
}

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

TEST_CASE("modelled: the same timeline, run after run") {
  std::vector<std::vector<Picoseconds>> seen;
  for (int run = 0; run < 20; ++run) {
    std::vector<Picoseconds> ends(4);
    const std::string failure = on_threads(modelled_options(4, plain_cluster()), [&](Rank& rank) {
      std::vector<float> values(999);
      for (int i = 0; i < 5; ++i) {
        rank.world.broadcast(view(values), i % 4).wait();
        rank.world.all_reduce(view(values)).wait();
      }
      ends[static_cast<std::size_t>(rank.id)] = rank.compute.now();
    });
    CHECK(failure == "");
    seen.push_back(ends);
  }
  for (const auto& ends : seen) CHECK(ends == seen.front());
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
