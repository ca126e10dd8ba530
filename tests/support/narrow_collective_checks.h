#pragma once

#include <fmt/format.h>

#include <functional>
#include <random>
#include <string>
#include <vector>

#include "core/run/rank/rank.h"
#include "kernels/element.h"
#include "tests/support/collective_oracle.h"

/// Requirements on collectives of bf16 and f16 elements. The checks are called on every rank, like
/// CollectiveChecks.
namespace lockstep::testing {

/// Checks collectives of rank.world on `n` 16-bit elements: sums must be bitwise identical to those
/// of an oracle that adds and rounds in the ring's order, moved data must be unchanged, and the
/// bytes sent must be half those of f32.
class NarrowCollectiveChecks {
 public:
  using Bits = std::vector<std::uint16_t>;

  NarrowCollectiveChecks(Rank& rank, DType dtype, std::int64_t n)
      : rank_(rank), dtype_(dtype), n_(n), ranks_(rank.count) {}

  std::string operator()() {
    ring();
    all_algorithms();
    moves();
    return wrong_;
  }

 private:
  float wide(std::uint16_t bits) const {
    return dtype_ == DType::bf16 ? element::from_bf16(bits) : element::from_f16(bits);
  }
  std::uint16_t narrow(float value) const {
    return dtype_ == DType::bf16 ? element::to_bf16(value) : element::to_f16(value);
  }
  View view(Bits& bits) const { return {bits.data(), {std::ssize(bits)}, dtype_}; }

  void fail(const std::string& what, const std::string& why) {
    wrong_ += fmt::format("{} of {} {}, rank {} of {}: {}\n", what, n_, name_of(dtype_), rank_.id,
                          ranks_, why);
  }

  /// Random elements for a rank, with magnitudes so different that the order of summation matters.
  Bits random(int rank) const {
    std::mt19937 generator{static_cast<unsigned>(rank * 1000 + static_cast<int>(n_))};
    Bits bits(static_cast<std::size_t>(n_));
    for (auto& each : bits)
      each = narrow((static_cast<float>(generator() % 2001) - 1000.0F) *
                    std::ldexp(1.0F, -static_cast<int>(generator() % 12)));
    return bits;
  }
  /// Integers small enough for their sum to be exact.
  Bits whole(int rank) const {
    Bits bits(static_cast<std::size_t>(n_));
    for (std::size_t i = 0; i < bits.size(); ++i)
      bits[i] = narrow(static_cast<float>((static_cast<std::size_t>(rank) * 5 + i) % 16));
    return bits;
  }

  /// The sum of chunk c starts at the member after c, and travels around the ring to c.
  Bits ring_sum() const {
    std::vector<Bits> all;
    for (int rank = 0; rank < ranks_; ++rank) all.push_back(random(rank));
    Bits sum(static_cast<std::size_t>(n_));
    for (int c = 0; c < ranks_; ++c)
      for (std::int64_t i = oracle::chunk_begin(n_, ranks_, c);
           i < oracle::chunk_begin(n_, ranks_, c + 1); ++i) {
        const auto at = static_cast<std::size_t>(i);
        const auto of = [&](int k) { return all[static_cast<std::size_t>((c + k) % ranks_)][at]; };
        std::uint16_t so_far = of(1);
        for (int k = 2; k <= ranks_; ++k) so_far = narrow(wide(of(k)) + wide(so_far));
        sum[at] = so_far;
      }
    return sum;
  }

  /// Runs one collective, and compares the number of elements that it sent and the size of its
  /// scratch memory, in elements, with the expected numbers.
  void run(const std::string& what, const char* counted_as, std::int64_t sends,
           std::int64_t scratch, const std::function<Work()>& issue) {
    const std::int64_t before = rank_.transport->bytes_sent()[operation_named(counted_as)];
    rank_.memory.reset_peak();
    issue().wait();
    const std::int64_t peak = rank_.memory.peak().of(MemoryCategory::communication);
    const std::int64_t sent = rank_.transport->bytes_sent()[operation_named(counted_as)] - before;
    if (sent != 2 * sends) fail(what, fmt::format("{} bytes sent, not {}", sent, 2 * sends));
    if (ranks_ == 1 || rank_.transport->combines()) scratch = 0;
    if (peak != 2 * scratch)
      fail(what, fmt::format("{} bytes of scratch, not {}", peak, 2 * scratch));
  }

  void ring() {
    const Bits want = ring_sum();
    const std::int64_t chunk = oracle::chunk(n_, ranks_, 0);
    Bits data = random(rank_.id);
    run("all_reduce", "all_reduce", ranks_ == 1 ? 0 : oracle::ring(n_, ranks_, rank_.id), chunk,
        [&] { return rank_.world.all_reduce(view(data)); });
    if (data != want) fail("all_reduce", "another sum than the ring's");

    data = random(rank_.id);
    run("reduce_scatter", "reduce_scatter",
        ranks_ == 1 ? 0 : oracle::ring_reduce_scatter(n_, ranks_, rank_.id), chunk,
        [&] { return rank_.world.reduce_scatter(view(data)); });
    const auto begin = oracle::chunk_begin(n_, ranks_, rank_.id);
    const auto end = oracle::chunk_begin(n_, ranks_, rank_.id + 1);
    if (!std::equal(want.begin() + begin, want.begin() + end, data.begin() + begin))
      fail("reduce_scatter", "another sum than the ring's");
  }

  void all_algorithms() {
    Bits want(static_cast<std::size_t>(n_));
    for (std::size_t i = 0; i < want.size(); ++i) {
      float sum = 0;
      for (int rank = 0; rank < ranks_; ++rank) sum += wide(whole(rank)[i]);
      want[i] = narrow(sum);
    }
    for (const Algorithm algorithm : all_reduce_algorithms) {
      Bits data = whole(rank_.id);
      rank_.world.all_reduce(view(data), algorithm).wait();
      if (data != want) fail(name_of(algorithm), "other values");
    }
  }

  void moves() {
    const Bits all = random(99);
    const int root = ranks_ - 1;
    Bits data = rank_.id == root ? all : Bits(all.size());
    rank_.world.broadcast(view(data), root).wait();
    if (data != all) fail("broadcast", "other values");

    const auto own = [&] {
      Bits part(all.size());
      const auto begin = oracle::chunk_begin(n_, ranks_, rank_.id);
      const auto end = oracle::chunk_begin(n_, ranks_, rank_.id + 1);
      std::copy(all.begin() + begin, all.begin() + end, part.begin() + begin);
      return part;
    };
    data = own();
    rank_.world.all_gather(view(data)).wait();
    if (data != all) fail("all_gather", "other values");
    data = own();
    rank_.world.gather(view(data), root).wait();
    if (rank_.id == root && data != all) fail("gather", "other values");

    const auto each = static_cast<std::size_t>(n_ / ranks_);
    Bits out(each * static_cast<std::size_t>(ranks_)), in(out.size()), want(out.size());
    for (std::size_t i = 0; i < out.size(); ++i) {
      const auto value = [&](std::size_t from, std::size_t to) {
        return static_cast<std::uint16_t>(from * 1000 + to * 100 + i % each);
      };
      out[i] = value(static_cast<std::size_t>(rank_.id), i / each);
      want[i] = value(i / each, static_cast<std::size_t>(rank_.id));
    }
    rank_.world.all_to_all(view(out), view(in)).wait();
    if (in != want) fail("all_to_all", "other values");
  }

  Rank& rank_;
  DType dtype_;
  std::int64_t n_;
  int ranks_;
  std::string wrong_;
};

}  // namespace lockstep::testing
