#pragma once

#include <fmt/format.h>

#include <cstring>
#include <functional>
#include <map>
#include <optional>
#include <random>
#include <string>
#include <vector>

#include "core/comm/rings.h"
#include "core/comm/transport/control.h"
#include "core/run/rank/rank.h"
#include "tests/support/collective_oracle.h"

/// Checks of collectives that run under both threads and processes: each check is called on every
/// rank and returns the errors found there, or "".
namespace lockstep::testing {

inline View view(std::vector<float>& values) {
  return {values.data(), {static_cast<std::int64_t>(values.size())}};
}

/// Integers, so sums are exact in any order.
inline std::vector<float> whole_values(int rank, std::int64_t count) {
  std::vector<float> values(static_cast<std::size_t>(count));
  for (std::size_t i = 0; i < values.size(); ++i)
    values[i] = static_cast<float>((static_cast<std::size_t>(rank) * 31 + i * 7) % 101);
  return values;
}
inline std::vector<float> sum_of_wholes(int ranks, std::int64_t count) {
  std::vector<float> sum(static_cast<std::size_t>(count));
  for (int rank = 0; rank < ranks; ++rank) {
    const auto values = whole_values(rank, count);
    std::transform(sum.begin(), sum.end(), values.begin(), sum.begin(), std::plus<>{});
  }
  return sum;
}
inline std::vector<float> random_values(int rank, std::int64_t count) {
  std::minstd_rand random{static_cast<unsigned>(rank + 1)};
  std::vector<float> values(static_cast<std::size_t>(count));
  for (float& value : values) value = static_cast<float>(random()) / 2147483648.0F - 0.5F;
  return values;
}

/// Element counts of an uneven exchange, many of them zero; [i][j] is the number of elements that
/// rank i sends to rank j. The counts are the same on every rank.
inline std::vector<std::vector<std::int64_t>> random_counts(int ranks, std::int64_t most,
                                                            unsigned seed) {
  std::mt19937 random{seed};
  std::vector<std::vector<std::int64_t>> counts;
  for (int i = 0; i < ranks; ++i) {
    auto& row = counts.emplace_back();
    for (int j = 0; j < ranks; ++j)
      row.push_back(random() % 3 == 0 ? 0
                                      : static_cast<std::int64_t>(random() % 1000) * most / 999);
  }
  return counts;
}

/// Checks all collectives of rank.world on `n` elements: values against a serial oracle, bytes sent
/// against formulas (skipped for the backend's native collectives), and scratch memory, which must
/// be released. `roots` is the number of members to try as root.
class CollectiveChecks {
 public:
  CollectiveChecks(Rank& rank, std::int64_t n, int roots)
      : rank_(rank), n_(n), ranks_(rank.count), roots_(std::min(roots, rank.count)) {}

  std::string operator()() {
    all_reduces();
    reduce_scatter();
    all_gather();
    for (int root = 0; root < roots_; ++root) {
      broadcast(root);
      gather(root);
    }
    all_to_all();
    for (unsigned seed = 1; seed <= 3; ++seed) all_to_all_v(seed);
    barrier();
    return wrong_;
  }

  /// Checks the built-in algorithms that distinguish nodes or use several streams. The values must
  /// be right, and scratch memory must be as large as all_reduce_scratch() says.
  std::string of_libraries() {
    for (const Algorithm algorithm : {Algorithm::hierarchical, Algorithm::double_tree}) {
      const std::int64_t scratch = all_reduce_scratch(
          algorithm, n_, ranks_, rank_.transport->combines(), rank_.world.per_node());
      sums(name_of(algorithm), scratch,
           [&](View data) { rank_.world.all_reduce(data, algorithm).wait(); });
    }
    std::vector<int> all;
    for (int i = 0; i < ranks_; ++i) all.push_back(i);
    const Rings rings{rank_.endpoint, all, "ring of the check",
                      rank_.transport->open_channels(
                          Rings::channels_taken(all, rank_.clock.cluster().ranks_per_node))};
    sums("rings", {}, [&](View data) { rings.all_reduce(data).wait(); });

    const std::int64_t each = n_ / ranks_;
    const auto from_to = [&](int from, int to, std::int64_t i) {
      return static_cast<float>(from * 1000 + to * 100 + i % 97);
    };
    std::vector<float> out, in(static_cast<std::size_t>(each * ranks_)), want;
    for (int other = 0; other < ranks_; ++other)
      for (std::int64_t i = 0; i < each; ++i) {
        out.push_back(from_to(rank_.id, other, i));
        want.push_back(from_to(other, rank_.id, i));
      }
    rank_.world.two_hop_all_to_all(view(out), view(in)).wait();
    if (in != want) fail("two_hop_all_to_all", "other values");
    return wrong_;
  }

 private:
  bool native() const { return rank_.endpoint.collectives == Collectives::native; }

  void fail(const std::string& what, const std::string& why) {
    wrong_ +=
        fmt::format("{} of {} elements, rank {} of {}: {}\n", what, n_, rank_.id, ranks_, why);
  }

  /// Runs one collective, and compares the number of elements that it sent and the size of its
  /// scratch memory, in elements, with the expected numbers.
  void run(const std::string& what, const char* counted_as, std::int64_t sends,
           std::int64_t scratch, const std::function<Work()>& issue) {
    auto expected = rank_.transport->bytes_sent();
    const auto memory = [&](const MemoryUse& use) { return use.of(MemoryCategory::communication); };
    rank_.memory.reset_peak();
    issue().wait();
    const std::int64_t peak = memory(rank_.memory.peak());
    const Operation operation = operation_named(counted_as);
    if (ranks_ > 1 && !native()) expected[operation] += 4 * sends;
    const auto sent = rank_.transport->bytes_sent();
    if (sent != expected)
      fail(what, fmt::format("{} bytes sent in all, {} by its formula", sent[operation],
                             expected[operation]));
    if (native() || ranks_ == 1) scratch = 0;
    if (peak != 4 * scratch)
      fail(what, fmt::format("{} bytes of scratch, {} by its formula", peak, 4 * scratch));
    if (memory(rank_.memory.current()) != 0) fail(what, "scratch that is not given back");
  }

  /// Checks an all-reduce of whole numbers and one of random values. `scratch` is the peak memory,
  /// in elements, that the first one must take.
  void sums(const std::string& what, std::optional<std::int64_t> scratch,
            const std::function<void(View)>& all_reduce) {
    auto sum = whole_values(rank_.id, n_);
    rank_.memory.reset_peak();
    all_reduce(view(sum));
    if (const auto peak = rank_.memory.peak().of(MemoryCategory::communication);
        scratch && peak != 4 * *scratch)
      fail(what, fmt::format("{} bytes of scratch, {} by its formula", peak, 4 * *scratch));
    if (sum != sum_of_wholes(ranks_, n_)) fail(what, "other values");
    auto random = random_values(rank_.id, n_);
    all_reduce(view(random));
    same_bits(what, random);
  }

  void all_reduces() {
    const bool combines = rank_.transport->combines();
    const std::int64_t n = n_;
    const std::int64_t chunk = oracle::chunk(n, ranks_, 0);
    struct Case {
      Algorithm algorithm;
      std::int64_t (*sends)(std::int64_t, int, int);
      std::int64_t scratch;
    };
    const Case cases[] = {
        {Algorithm::ring, oracle::ring, combines ? 0 : chunk},
        {Algorithm::naive, oracle::naive, combines ? 0 : n},
        {Algorithm::tree, oracle::tree, combines ? 0 : n},
        {Algorithm::recursive_doubling, oracle::recursive_doubling, n},
        {Algorithm::rabenseifner, oracle::rabenseifner, combines ? 0 : n},
    };
    for (const Case& c : cases) {
      const std::string what = fmt::format("all_reduce by {}", name_of(c.algorithm));
      if (ranks_ > 1 && c.scratch != all_reduce_scratch(c.algorithm, n, ranks_, combines))
        fail(what, "another scratch than all_reduce_scratch says");
      auto sum = whole_values(rank_.id, n);
      run(what, "all_reduce", c.sends(n, ranks_, rank_.id), c.scratch,
          [&] { return rank_.world.all_reduce(view(sum), c.algorithm); });
      if (sum != sum_of_wholes(ranks_, n)) fail(what, "other values");

      auto random = random_values(rank_.id, n);
      rank_.world.all_reduce(view(random), c.algorithm).wait();
      same_bits(what, random);
    }
  }

  /// Checks that the results are bitwise identical on all ranks, and close to the sum computed in
  /// double precision.
  void same_bits(const std::string& what, const std::vector<float>& got) {
    std::vector<double> sum(got.size());
    for (int rank = 0; rank < ranks_; ++rank) {
      const auto values = random_values(rank, n_);
      std::transform(sum.begin(), sum.end(), values.begin(), sum.begin(), std::plus<>{});
    }
    for (std::size_t i = 0; i < got.size(); ++i)
      if (std::abs(got[i] - sum[i]) > 1e-5) return fail(what, "sums that are far off");
    const std::string bytes{reinterpret_cast<const char*>(got.data()), 4 * got.size()};
    const std::string hash = std::to_string(std::hash<std::string>{}(bytes));
    const auto all = gather_to_root(*rank_.transport, hash);
    for (const std::string& each : all)
      if (each != all.front()) return fail(what, "not the same bits on all ranks");
  }

  void reduce_scatter() {
    auto data = whole_values(rank_.id, n_);
    const auto want = sum_of_wholes(ranks_, n_);
    run("reduce_scatter", "reduce_scatter", oracle::ring_reduce_scatter(n_, ranks_, rank_.id),
        rank_.transport->combines() ? 0 : oracle::chunk(n_, ranks_, 0),
        [&] { return rank_.world.reduce_scatter(view(data)); });
    if (!same_chunk(data, want, rank_.id)) fail("reduce_scatter", "other values");
  }

  /// Returns `data` with all chunks overwritten except this rank's own.
  std::vector<float> own_chunk_of(std::vector<float> data) const {
    std::fill(data.begin(), data.begin() + oracle::chunk_begin(n_, ranks_, rank_.id), -1.0F);
    std::fill(data.begin() + oracle::chunk_begin(n_, ranks_, rank_.id + 1), data.end(), -1.0F);
    return data;
  }
  bool same_chunk(const std::vector<float>& got, const std::vector<float>& want, int i) const {
    const auto begin = oracle::chunk_begin(n_, ranks_, i);
    const auto end = oracle::chunk_begin(n_, ranks_, i + 1);
    return std::equal(want.begin() + begin, want.begin() + end, got.begin() + begin);
  }

  void all_gather() {
    const auto want = whole_values(77, n_);
    auto data = own_chunk_of(want);
    run("all_gather", "all_gather", oracle::ring_all_gather(n_, ranks_, rank_.id), 0,
        [&] { return rank_.world.all_gather(view(data)); });
    if (data != want) fail("all_gather", "other values");
  }

  void broadcast(int root) {
    const std::string what = fmt::format("broadcast from {}", root);
    auto data = whole_values(rank_.id, n_);
    run(what, "broadcast", oracle::broadcast(n_, ranks_, rank_.id, root), 0,
        [&] { return rank_.world.broadcast(view(data), root); });
    if (data != whole_values(root, n_)) fail(what, "other values");
  }

  void gather(int root) {
    const std::string what = fmt::format("gather to {}", root);
    const auto all = whole_values(55, n_);
    auto data = own_chunk_of(all);
    const auto want = rank_.id == root ? all : data;
    run(what, "gather", rank_.id == root ? 0 : oracle::chunk(n_, ranks_, rank_.id), 0,
        [&] { return rank_.world.gather(view(data), root); });
    if (data != want) fail(what, "other values");
  }

  void all_to_all() {
    const std::int64_t each = n_ / ranks_;
    const std::vector<std::vector<std::int64_t>> counts(
        static_cast<std::size_t>(ranks_),
        std::vector<std::int64_t>(static_cast<std::size_t>(ranks_), each));
    exchange("all_to_all", counts,
             [&](View out, View in) { return rank_.world.all_to_all(out, in); });
  }

  void all_to_all_v(unsigned seed) {
    const auto counts = random_counts(ranks_, 2 * n_ / ranks_, seed);
    exchange("all_to_all_v", counts, [&](View out, View in) {
      return rank_.world.all_to_all_v(out, counts[static_cast<std::size_t>(rank_.id)], in,
                                      column(counts));
    });
  }

  std::vector<std::int64_t> column(const std::vector<std::vector<std::int64_t>>& counts) const {
    std::vector<std::int64_t> from;
    for (const auto& row : counts) from.push_back(row[static_cast<std::size_t>(rank_.id)]);
    return from;
  }

  void exchange(const std::string& what, const std::vector<std::vector<std::int64_t>>& counts,
                const std::function<Work(View, View)>& issue) {
    const auto value = [](int from, int to, std::int64_t i) {
      return static_cast<float>((from * 31 + to * 17 + i * 7) % 1009);
    };
    std::vector<float> out, want;
    std::int64_t sends = 0;
    for (int other = 0; other < ranks_; ++other) {
      const auto count =
          counts[static_cast<std::size_t>(rank_.id)][static_cast<std::size_t>(other)];
      for (std::int64_t i = 0; i < count; ++i) out.push_back(value(rank_.id, other, i));
      if (other != rank_.id) sends += count;
      const auto comes = column(counts)[static_cast<std::size_t>(other)];
      for (std::int64_t i = 0; i < comes; ++i) want.push_back(value(other, rank_.id, i));
    }
    std::vector<float> in(want.size());
    run(what, "all_to_all", sends, 0, [&] { return issue(view(out), view(in)); });
    if (in != want) fail(what, "other values");
  }

  void barrier() {
    run("barrier", "barrier", 0, 0, [&] { return rank_.world.barrier(); });
  }

  Rank& rank_;
  std::int64_t n_;
  int ranks_;
  int roots_;
  std::string wrong_;
};

}  // namespace lockstep::testing
