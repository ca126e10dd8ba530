#include "exercises/20_ring_attention/task.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "exercises/frame/check.h"
#include "exercises/frame/own_memory.h"

namespace lockstep::exercises {

const char* const learned =
    "Keys and values travel around the ring, queries stay, and the results of the blocks are "
    "merged. A "
    "rank never has more than two blocks, however long the sequence is, and if computing with a "
    "block takes as long as passing it on, all hops are hidden.";

void merge(std::span<float> y, std::span<float> lse, std::span<const float> y_part,
           std::span<const float> lse_part) {
  if (y.size() != y_part.size() || lse.size() != lse_part.size())
    throw Wrong{fmt::format("merge() is called with {} and {} numbers of y, {} and {} of lse",
                            y.size(), y_part.size(), lse.size(), lse_part.size()),
                "Both parts are the attention of the same queries."};
  const std::size_t d = y.size() / lse.size();
  for (std::size_t i = 0; i < lse.size(); ++i) {
    const float largest = std::max(lse[i], lse_part[i]);
    if (std::isinf(largest)) continue;
    const float old_sum = std::exp(lse[i] - largest), new_sum = std::exp(lse_part[i] - largest);
    const float sum = old_sum + new_sum;
    for (std::size_t k = i * d; k < (i + 1) * d; ++k)
      y[k] = (old_sum * y[k] + new_sum * y_part[k]) / sum;
    lse[i] = largest + std::log(sum);
  }
}

namespace {

constexpr double minus_infinity = -std::numeric_limits<double>::infinity();

struct Case {
  int N;
  std::size_t c, d;
  double T;
  std::size_t block() const { return 2 * c * d; }
  double hop() const { return 1 + 0.004 * static_cast<double>(block()); }
  std::string text() const {
    return fmt::format("{}, {} with {} each, T = {:g} µs", count_of(N, "rank"),
                       count_of(static_cast<std::int64_t>(c), "query", "queries"),
                       count_of(static_cast<std::int64_t>(d), "feature"), T);
  }
};

/// The attention of one rank's queries to some keys, in f64.
struct Exact {
  std::vector<double> y, lse;
};

/// By rank: its queries, and its keys followed by their values.
struct Sequence {
  Sequence(Check& check, const Case& sizes_) : sizes(sizes_) {
    // Never 0, which would make scores equal.
    const auto small = [&](std::size_t count) {
      std::vector<float> all(count);
      for (float& each : all)
        each = static_cast<float>(check.number_from(1, 2) * (check.number_from(0, 1) ? 1 : -1));
      return all;
    };
    for (int r = 0; r < sizes.N; ++r) {
      queries.push_back(small(sizes.c * sizes.d));
      blocks.push_back(small(sizes.block()));
      // Different on each rank, so that a block reveals its rank, and so that neighbours' scores
      // differ.
      blocks.back()[0] = static_cast<float>(r % 5 - 2);
      blocks.back().back() = static_cast<float>(10 * (r + 1));
    }
  }
  Case sizes;
  std::vector<std::vector<float>> queries, blocks;

  /// The rank whose block this is, or -1.
  int owner(std::span<const float> block) const {
    for (std::size_t r = 0; r < blocks.size(); ++r)
      if (std::ranges::equal(block, blocks[r])) return static_cast<int>(r);
    return -1;
  }
  Exact attention(int rank, const std::vector<int>& owners) const {
    const auto& [N, c, d, T] = sizes;
    const auto& q = queries[at(rank)];
    Exact result{std::vector<double>(c * d), std::vector<double>(c, minus_infinity)};
    for (std::size_t i = 0; i < c; ++i) {
      double sum = 0;
      for (const int owner : owners)
        for (std::size_t j = 0; j < c; ++j) {
          const auto& block = blocks[at(owner)];
          double score = 0;
          for (std::size_t k = 0; k < d; ++k)
            score += static_cast<double>(q[i * d + k]) * static_cast<double>(block[j * d + k]);
          sum += std::exp(score);
          for (std::size_t k = 0; k < d; ++k)
            result.y[i * d + k] += std::exp(score) * static_cast<double>(block[c * d + j * d + k]);
        }
      for (std::size_t k = 0; k < d; ++k) result.y[i * d + k] /= sum;
      result.lse[i] = std::log(sum);
    }
    return result;
  }
};

/// Values are at most 80, and the merges are in f32.
bool is_close(std::span<const float> found, const std::vector<double>& expected) {
  return std::ranges::equal(found, expected, [](double a, double b) {
    return std::abs(a - b) <= 1e-4 * std::max(1.0, std::abs(b));
  });
}

std::string diagnose_failure(const Failure& failure) {
  if (failure.deadlock && failure.receives == 0)
    return "Every rank waits for its send to end before it receives. A send ends only when the "
           "receiver takes the message: start both, and wait for both later.";
  if (failure.waits_for_finished)
    return "One rank has finished while its neighbour still sends to it or waits for it: every "
           "rank sends and receives N - 1 blocks.";
  return "In each round every rank sends a block to one neighbour and receives one of the same "
         "size from the other.";
}

std::string why_not_y(std::span<const float> y, std::span<const float> lse,
                      const Sequence& sequence, int rank) {
  const int N = sequence.sizes.N;
  const std::size_t d = sequence.sizes.d;
  std::vector<int> all;
  Exact sum;
  for (int r = 0; r < N; ++r) {
    all.push_back(r);
    const Exact one = sequence.attention(rank, {r});
    if (N > 1 && is_close(y, one.y) && is_close(lse, one.lse))
      return fmt::format(
          "This is the attention to the keys of rank {} alone. attend() overwrites "
          "its results: let it write to a part, and merge that.",
          r);
    sum.y.resize(one.y.size());
    for (std::size_t i = 0; i < one.y.size(); ++i) sum.y[i] += one.y[i];
  }
  Exact mean = sum;
  for (double& each : mean.y) each /= N;
  const Exact right = sequence.attention(rank, all);
  const bool is_right = is_close(y, right.y);
  if (!is_right && (is_close(y, sum.y) || is_close(y, mean.y)))
    return "The parts have been added or averaged. Each part is a mean of its own, and blocks with "
           "larger scores count more: merge() weights them by their lse.";
  Exact phantom = right;
  for (std::size_t i = 0; i < phantom.lse.size(); ++i) {
    const double weight = std::exp(phantom.lse[i]) / (1 + std::exp(phantom.lse[i]));
    for (std::size_t k = i * d; k < (i + 1) * d; ++k) phantom.y[k] *= weight;
    phantom.lse[i] = std::log(1 + std::exp(phantom.lse[i]));
  }
  if (is_close(y, phantom.y) && is_close(lse, phantom.lse))
    return "This is as if there were one more key, with score 0 and value 0. An lse of 0 stands "
           "for a key: where there are none yet, it is -infinity.";
  if (is_right)
    return "y is right, but lse is not: the log-sum-exp of all scores is what a later merge, and "
           "the backward pass, need.";
  return "attend() was called once for each block, but the results were not merged correctly. Does "
         "something of what y and lse contained before remain in them?";
}

void check_one(Check& check, const Case& sizes) {
  const auto& [N, c, d, T] = sizes;
  const Sequence sequence{check, sizes};
  const std::string what = sizes.text();
  std::vector<std::vector<float>> before;
  for (int r = 0; r < N; ++r) {
    before.push_back(check.numbers(c * d + c));
    // A large lse, so that the previous contents of y change the result if the answer keeps them.
    for (std::size_t i = c * d; i < before.back().size(); ++i)
      before.back()[i] = 1 + std::abs(before.back()[i]);
  }
  const Outcome outcome = check.run(
      what, N,
      [&](World& world) {
        const int r = world.rank();
        std::vector<float> results = before[at(r)];
        std::vector<float> y(results.begin(), results.end() - static_cast<std::ptrdiff_t>(c));
        std::vector<float> lse(results.end() - static_cast<std::ptrdiff_t>(c), results.end());
        std::vector<int> seen(at(N));
        const auto attend = [&](std::span<const float> block, std::span<float> y_part,
                                std::span<float> lse_part) {
          const Uncounted uncounted;
          if (block.size() != sizes.block() || y_part.size() != c * d || lse_part.size() != c)
            throw Wrong{
                fmt::format("attend() is called with {}, {} and {} numbers, and should be "
                            "with {}, {} and {}",
                            block.size(), y_part.size(), lse_part.size(), sizes.block(), c * d, c),
                "It takes one rank's block of keys and values, and gives y and lse."};
          expect_arrived("attend()", block);
          expect_free(world, "attend()", y_part);
          expect_free(world, "attend()", lse_part);
          const int owner = sequence.owner(block);
          if (owner < 0)
            throw Wrong{
                fmt::format("rank {} computes with [{}], which is not the block of any rank", r,
                            list(block)),
                "Either the block has not arrived completely, or something else has been "
                "received into its buffer: wait for a message before you use it, and for "
                "your own send before you overwrite what it sends."};
          ++seen[at(owner)];
          world.compute(fmt::format("K{}", owner), T);
          const Exact part = sequence.attention(r, {owner});
          std::ranges::transform(part.y, y_part.begin(),
                                 [](double x) { return static_cast<float>(x); });
          std::ranges::transform(part.lse, lse_part.begin(),
                                 [](double x) { return static_cast<float>(x); });
        };
        Buffer own = world.allocate(sizes.block());
        std::ranges::copy(sequence.blocks[at(r)], own.span().begin());
        {
          const Attend call = attend;
          const OwnMemory counted{world};
          ring_attention(world, call, std::move(own), y, lse);
        }
        const int most = *std::ranges::max_element(seen);
        for (int owner = 0; owner < N; ++owner) {
          const int times = seen[at(owner)];
          if (most > 1 ? times < 2 : times == 1) continue;
          throw Wrong{fmt::format("rank {} has called attend() {} with the keys and values of rank "
                                  "{}, instead of once",
                                  r, count_of(times, "time"), owner),
                      most > 1 ? "A block is passed on as it was received. In the next round, a "
                                 "rank computes with the block that has arrived, and sends that "
                                 "one on: swap the two buffers."
                               : "There are N blocks, and one more round of computing than of "
                                 "sending: the block that arrives last is not passed on, but "
                                 "computed with."};
        }
        std::ranges::copy(y, results.begin());
        std::ranges::copy(lse, results.end() - static_cast<std::ptrdiff_t>(c));
        return results;
      },
      diagnose_failure);

  std::vector<int> all;
  for (int r = 0; r < N; ++r) all.push_back(r);
  for (int r = 0; r < N; ++r) {
    const Exact right = sequence.attention(r, all);
    const std::span<const float> found = outcome.results[at(r)];
    const auto y = found.first(c * d), lse = found.subspan(c * d);
    if (is_close(y, right.y) && is_close(lse, right.lse)) continue;
    throw Wrong{fmt::format("{}: on rank {}, y should be [{}] and lse [{}]; they are [{}] and [{}]",
                            what, r, list(std::vector<float>(right.y.begin(), right.y.end())),
                            list(std::vector<float>(right.lse.begin(), right.lse.end())), list(y),
                            list(lse)),
                why_not_y(y, lse, sequence, r)};
  }

  const auto block_bytes = 4 * static_cast<std::int64_t>(sizes.block());
  const auto part_bytes = 4 * static_cast<std::int64_t>(c * d + c);
  for (int r = 0; r < N; ++r) {
    const std::int64_t sent = outcome.bytes_sent[at(r)];
    if (sent != (N - 1) * block_bytes)
      throw Wrong{fmt::format("{}: rank {} sends {} B, and N - 1 blocks are {} B", what, r, sent,
                              (N - 1) * block_bytes),
                  sent == N * block_bytes
                      ? "The result is right, but in the last round the blocks travel once more, "
                        "back to their owners, who do not need them."
                      : "The result is right, but each rank should pass on N - 1 blocks, each of "
                        "them to one neighbour."};
    const std::int64_t held = outcome.peak_bytes[at(r)];
    if (held > 2 * block_bytes + part_bytes)
      throw Wrong{
          fmt::format("{}: rank {} holds {} B at a time, and two blocks and one part are {} "
                      "B (a block is {} B, a part {} B)",
                      what, r, held, 2 * block_bytes + part_bytes, block_bytes, part_bytes),
          "The result is right, but the point of the ring is memory: a rank needs the block "
          "that it computes with and one that arrives. Two buffers can change places in "
          "every round."};
  }
  expect_in_buffers(what, outcome, c * d + c, "one partial result is");
  const double best = (N - 1) * std::max(T, sizes.hop()) + T;
  if (outcome.microseconds > best + 1e-6) {
    std::string picture = draw(outcome.rows).text;
    while (picture.ends_with('\n')) picture.pop_back();
    const bool serial = outcome.microseconds > (N - 1) * (T + sizes.hop()) + T - 1e-6;
    throw Wrong{
        fmt::format(
            "{}: takes {:.3f} µs; a hop takes {:.3f} µs, so that {:.3f} µs are enough\n\n{}", what,
            outcome.microseconds, sizes.hop(), best, picture),
        serial ? "The result is right, but nothing overlaps: a round takes T + H instead of the "
                 "larger of the two. A block can be sent on while a rank computes with it, because "
                 "both only read it. Start the messages before attend(), and wait for them after "
                 "it."
               : "The result is right, but some messages do not overlap with attend(). In every "
                 "round but the last, start both messages before attend(), and wait for them after "
                 "it."};
  }
  if (N == 4 && c == 4)
    check.show(
        "Your run on 4 ranks: K2 is the attention to the keys of rank 2; below, to whom the "
        "rank passes them on meanwhile.",
        draw(outcome.rows));
}

}  // namespace

void check(Check& check) {
  // With {3, 8, 3, 0.25}, hops take longer than computing. {4, 64, 32, 20} is large enough to see
  // where blocks are.
  const Case cases[]{{2, 1, 1, 4},    {2, 2, 1, 4},   {3, 2, 2, 4},   {1, 3, 2, 4},
                     {3, 8, 3, 0.25}, {4, 4, 4, 2.5}, {8, 3, 5, 1.5}, {5, 1, 3, 0.5},
                     {4, 64, 32, 20}, {11, 2, 1, 4}};
  for (const Case& sizes : cases) check_one(check, sizes);
  for (int trial = 0; trial < 3; ++trial)
    check_one(check,
              {check.number_from(1, 7), static_cast<std::size_t>(check.number_from(1, 9)),
               static_cast<std::size_t>(check.number_from(1, 4)), 0.25 * check.number_from(1, 12)});
}

}  // namespace lockstep::exercises
