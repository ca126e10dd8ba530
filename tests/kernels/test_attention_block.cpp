#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>

#include "tests/kernels/support.h"
#include "tests/support/portion.h"

using namespace lockstep;
using namespace lockstep::testing;

// The attention of some queries to some keys, its merge with the attention to other keys, and its
// gradients, compared with a serial softmax over all keys.

namespace {

/// The arguments of attention in blocks.
struct InBlocks {
  oracle::Heads n;
  std::int64_t b, s, keys;
  int heads;
  Array q, k, v, dy, y, lse, dq, dk, dv;
  std::vector<std::int32_t> ranges;  ///< (b, s, 2): which keys the queries see; empty: all

  InBlocks(oracle::Heads n_, std::int64_t gap, Random& random)
      : n(n_),
        b(static_cast<std::int64_t>(n.b)),
        s(static_cast<std::int64_t>(n.s)),
        keys(static_cast<std::int64_t>(n.keys)),
        heads(static_cast<int>(n.heads)),
        q{of_queries(), gap},
        k{of_keys(), gap},
        v{of_keys(), gap},
        dy{of_queries()},
        y{of_queries()},
        lse{{b, heads, s}},
        dq{of_queries(), gap},
        dk{of_keys(), gap},
        dv{of_keys(), gap} {
    for (Array* each : {&q, &k, &v, &dy, &dq, &dk, &dv}) each->randomize(random);
  }
  Shape of_queries() const { return {b, s, h()}; }
  Shape of_keys() const { return {b, keys, static_cast<std::int64_t>(n.groups * n.d())}; }
  std::int64_t h() const { return static_cast<std::int64_t>(n.h); }

  View visible() { return ranges.empty() ? View{} : indices(ranges, {b, s, 2}); }
  oracle::Visible seen() const {
    oracle::Visible seen = oracle::unmasked(n);
    for (std::size_t i = 0; i < ranges.size() / 2; ++i)
      seen[i] = {size(ranges[2 * i]), size(ranges[2 * i + 1])};
    return seen;
  }

  /// Computes y and lse of the block's queries; merges them into this y and lse if `merge`.
  void forward(const AttentionBlock& block, bool merge) {
    if (!merge)
      return kernels().attention_block_forward({}, q, k, v, heads, block, visible(), y, lse);
    Array part{{b, block.queries, h()}}, lse_part{{b, heads, block.queries}};
    kernels().attention_block_forward({}, q, k, v, heads, block, visible(), part, lse_part);
    kernels().attention_merge({}, part, lse_part, heads, block.first_query, y, lse);
  }
  void backward(const AttentionBlock& block) {
    kernels().attention_block_backward({}, dy, q, k, v, y, lse, heads, block, visible(), dq, dk,
                                       dv);
  }
};

oracle::Heads random_sizes(Random& random, std::int64_t longest) {
  const std::int64_t heads = random.between(1, 8), d = random.between(1, 40);
  return {.b = size(random.between(1, 3)),
          .s = size(random.between(1, longest)),
          .h = size(heads * d),
          .heads = size(heads),
          .groups = size(random_divisor(random, heads)),
          .keys = size(random.between(2, longest))};
}

/// Lets every query see any range of keys, or none, or the keys of its document up to its own
/// place.
void mask(InBlocks& t, Random& random) {
  const bool documents = random.between(0, 1) == 0;
  const std::int64_t longest = random.between(1, t.keys);
  for (std::int64_t row = 0; row < t.b * t.s; ++row) {
    const std::int64_t place = row % t.s * t.keys / t.s;
    std::int64_t begin = place / longest * longest, end = place + 1;
    if (!documents) begin = random.between(0, t.keys), end = random.between(0, t.keys);
    if (!documents && random.between(0, 2) > 0 && begin > end) std::swap(begin, end);
    t.ranges.push_back(static_cast<std::int32_t>(begin));
    t.ranges.push_back(static_cast<std::int32_t>(end));
  }
}

/// Returns error() of log-sum-exps, or ∞ unless both are -∞ for the same rows.
double error_of_lse(Array lse, Doubles want) {
  for (std::size_t i = 0; i < want.size(); ++i) {
    float& got = lse[static_cast<std::int64_t>(i)];
    if (std::isinf(want[i]) != std::isinf(got)) return infinity;
    if (std::isinf(want[i])) want[i] = got = 0.0F;
  }
  return error(lse, want);
}

/// Cuts [0, n) into up to three ranges, in random order.
std::vector<std::pair<std::int64_t, std::int64_t>> cut(Random& random, std::int64_t n) {
  std::vector<std::int64_t> cuts{0, random.between(0, n), random.between(0, n), n};
  std::sort(cuts.begin(), cuts.end());
  std::vector<std::pair<std::int64_t, std::int64_t>> all;
  for (std::size_t i = 0; i + 1 < cuts.size(); ++i)
    if (cuts[i] < cuts[i + 1]) all.emplace_back(cuts[i], cuts[i + 1] - cuts[i]);
  for (std::size_t i = all.size(); i > 1; --i)
    std::swap(all[i - 1],
              all[static_cast<std::size_t>(random.between(0, static_cast<std::int64_t>(i) - 1))]);
  return all;
}

}  // namespace

TEST_CASE("attention in blocks, merged, is the softmax over all keys; its gradients add up") {
  Random random{40};
  for (int trial = 0; trial < (on_cpu() ? 60 : portion_of(60, 12)); ++trial) {
    InBlocks t{random_sizes(random, trial % 4 < 2 ? 12 : 150), trial % 3, random};
    const bool masked = trial % 2 == 1;
    if (masked) mask(t, random);
    CAPTURE(t.b);
    CAPTURE(t.s);
    CAPTURE(t.keys);
    CAPTURE(t.heads);
    CAPTURE(t.n.groups);
    CAPTURE(t.n.d());
    CAPTURE(masked);

    // Every pair of a range of queries and a range of keys is one block.
    const auto key_ranges = cut(random, t.keys);
    for (std::size_t i = 0; i < key_ranges.size(); ++i) {
      const auto [first_key, keys] = key_ranges[i];
      if (i == 0) t.forward({0, t.s, first_key, keys}, false);
      if (i == 0) continue;
      for (const auto& [first, count] : cut(random, t.s))
        t.forward({first, count, first_key, keys}, true);
    }
    const Doubles q = t.q.doubles(), k = t.k.doubles(), v = t.v.doubles(), dy = t.dy.doubles();
    const auto want = oracle::attention(q, k, v, t.n, t.seen());
    CHECK(error(t.y, want.y) < tolerance);
    CHECK(error_of_lse(t.lse, want.lse) < tolerance);

    const Doubles before[] = {t.dq.doubles(), t.dk.doubles(), t.dv.doubles()};
    for (const auto& [first_key, keys] : key_ranges)
      for (const auto& [first, count] : cut(random, t.s))
        t.backward({first, count, first_key, keys});
    const auto gradients = oracle::attention_backward(q, k, v, dy, t.n, t.seen());
    CHECK(error(t.dq, plus(gradients.dq, before[0])) < tolerance);
    CHECK(error(t.dk, plus(gradients.dk, before[1])) < tolerance);
    CHECK(error(t.dv, plus(gradients.dv, before[2])) < tolerance);
  }
}

TEST_CASE("a causal block is one block per query, of the keys up to it") {
  Random random{43};
  for (int trial = 0; trial < (on_cpu() ? 20 : portion_of(20, 8)); ++trial) {
    InBlocks t{random_sizes(random, trial % 2 ? 12 : 150), trial % 3, random};
    const std::int64_t c = random.between(1, std::min(t.s, t.keys));
    const std::int64_t first = random.between(0, t.s - c),
                       first_key = random.between(0, t.keys - c);
    CAPTURE(t.s);
    CAPTURE(t.keys);
    CAPTURE(t.n.groups);
    CAPTURE(c);
    t.forward({0, t.s, 0, t.keys}, false);  // for backward: any softmax will do
    InBlocks single = t;

    const AttentionBlock triangle{first, c, first_key, c, true};
    t.backward(triangle);
    Array y{{t.b, c, t.h()}}, lse{{t.b, t.heads, c}};
    kernels().attention_block_forward({}, t.q, t.k, t.v, t.heads, triangle, {}, y, lse);

    Doubles want_y(y.doubles().size()), want_lse(lse.doubles().size());
    for (std::int64_t i = 0; i < c; ++i) {
      const AttentionBlock one{first + i, 1, first_key, i + 1};
      Array row{{t.b, 1, t.h()}}, row_lse{{t.b, t.heads, 1}};
      kernels().attention_block_forward({}, t.q, t.k, t.v, t.heads, one, {}, row, row_lse);
      single.backward(one);
      for (std::int64_t b = 0; b < t.b; ++b) {
        for (std::int64_t e = 0; e < t.h(); ++e)
          want_y[size((b * c + i) * t.h() + e)] = row[b * t.h() + e];
        for (std::int64_t head = 0; head < t.heads; ++head)
          want_lse[size((b * t.heads + head) * c + i)] = row_lse[b * t.heads + head];
      }
    }
    CHECK(error(y, want_y) < tolerance);
    CHECK(error(lse, want_lse) < tolerance);
    CHECK(error(t.dq, single.dq.doubles()) < tolerance);
    CHECK(error(t.dk, single.dk.doubles()) < tolerance);
    CHECK(error(t.dv, single.dv.doubles()) < tolerance);
  }
}

TEST_CASE("ranges that mask nothing have the bits of no ranges") {
  Random random{44};
  for (int trial = 0; trial < (on_cpu() ? 20 : portion_of(20, 3)); ++trial) {
    InBlocks plain{random_sizes(random, 150), trial % 3, random};
    InBlocks ranges = plain;
    for (std::int64_t row = 0; row < plain.b * plain.s; ++row)
      for (const std::int64_t end : {std::int64_t{0}, plain.keys})
        ranges.ranges.push_back(static_cast<std::int32_t>(end));
    const std::int64_t first = random.between(0, plain.s - 1),
                       first_key = random.between(0, plain.keys - 1);
    const AttentionBlock all{0, plain.s, 0, plain.keys};
    const AttentionBlock block{first, random.between(1, plain.s - first), first_key,
                               random.between(1, plain.keys - first_key)};
    for (InBlocks* each : {&plain, &ranges})
      each->forward(all, false), each->forward(block, true), each->backward(block);
    CHECK(same_bits(plain.y, ranges.y));
    CHECK(same_bits(plain.lse, ranges.lse));
    CHECK(same_bits(plain.dq, ranges.dq));
    CHECK(same_bits(plain.dk, ranges.dk));
    CHECK(same_bits(plain.dv, ranges.dv));
  }
}

TEST_CASE("a range that is no part of k throws on the CPU, and is clamped on a GPU") {
  Random random{45};
  InBlocks t{{.b = 2, .s = 3, .h = 4, .heads = 2, .groups = 1, .keys = 5}, 0, random};
  t.ranges = {0, 5, 1, 4, 2, 2, 0, 5, 1, 4, 5, 0};
  InBlocks clamped = t;
  t.ranges[6] = -7, t.ranges[7] = 2'000'000'000;
  const AttentionBlock all{0, 3, 0, 5};
  clamped.forward(all, false), clamped.backward(all);
  if (!on_cpu()) {
    t.forward(all, false), t.backward(all);
    CHECK(same_bits(t.y, clamped.y));
    CHECK(same_bits(t.dk, clamped.dk));
    return;
  }
  const char* const what =
      "attention_block_forward: query (1, 0) sees keys [-7, 2000000000), but k has rows [0, 5)";
  CHECK_THROWS_WITH_AS(t.forward(all, false), what, std::out_of_range);
  CHECK_THROWS_AS(t.backward(all), std::out_of_range);
  t.ranges[6] = 0, t.ranges[7] = 6;
  CHECK_THROWS_AS(t.forward(all, false), std::out_of_range);
  CHECK_NOTHROW(t.forward({1, 2, 0, 5}, true));  // without that query
}

TEST_CASE("a merge is correct for scores in the thousands, and changes no other row") {
  Random random{41};
  const std::int64_t s = 5, h = 6;
  Array y{{1, s, h}}, lse{{1, 2, s}}, part{{1, 2, h}}, lse_part{{1, 2, 2}};
  y.randomize(random), part.randomize(random);
  for (std::int64_t i = 0; i < 2 * s; ++i) lse[i] = 4000.0F + static_cast<float>(i);
  lse_part[0] = 1000.0F, lse_part[1] = 9000.0F, lse_part[2] = 4008.0F, lse_part[3] = -5000.0F;
  Array before{{1, s, h}};
  before.set(y);
  kernels().attention_merge({}, part, lse_part, 2, 3, y, lse);
  for (std::int64_t i = 0; i < 3 * h; ++i) CHECK(y[i] == before[i]);
  for (std::int64_t c = 0; c < 3; ++c) {
    CHECK(y[3 * h + c] == before[3 * h + c]);  // e^-3003 does not affect the sum
    CHECK(y[4 * h + c] == part[h + c]);
    CHECK(y[3 * h + 3 + c] == doctest::Approx((before[3 * h + 3 + c] + part[3 + c]) / 2));
    CHECK(y[4 * h + 3 + c] == before[4 * h + 3 + c]);
  }
  CHECK(lse[3] == 4003.0F);
  CHECK(lse[4] == 9000.0F);
  CHECK(lse[8] == doctest::Approx(4008.0 + std::log(2.0)));
  CHECK(lse[9] == 4009.0F);
}

TEST_CASE("a merge with a row that sees no key keeps the other row") {
  Array y{{1, 3, 2}}, lse{{1, 1, 3}}, part{{1, 3, 2}}, lse_part{{1, 1, 3}};
  for (Array* each : {&y, &part}) each->set(0.0F);
  for (Array* each : {&lse, &lse_part}) each->set(-infinity);
  y[0] = 0.3F, y[1] = -0.7F, lse[0] = 12.5F;
  part[2] = 0.1F, part[3] = 1e30F, lse_part[1] = -300.0F;
  kernels().attention_merge({}, part, lse_part, 1, 0, y, lse);
  const float want[] = {0.3F, -0.7F, 0.1F, 1e30F, 0.0F, 0.0F};
  for (std::int64_t i = 0; i < 6; ++i) CHECK(y[i] == want[i]);
  CHECK(lse[0] == 12.5F);
  CHECK(lse[1] == -300.0F);
  CHECK(lse[2] == -infinity);
}

TEST_CASE("a block that is no part of q and k throws, naming its rows") {
  Array q{{1, 4, 4}}, k{{1, 3, 4}}, y{{1, 2, 4}}, lse{{1, 2, 2}};
  CHECK_THROWS_WITH_AS(
      kernels().attention_block_forward({}, q, k, k, 2, {3, 2, 0, 3}, {}, y, lse),
      "attention_block_forward: the block of queries [3, 5) and keys [0, 3) does not fit q (1, 4, "
      "4) and k (1, 3, 4): its rows must be theirs, and there must be a key",
      std::invalid_argument);
  CHECK_THROWS_AS(kernels().attention_block_forward({}, q, k, k, 2, {0, 2, 3, 0}, {}, y, lse),
                  std::invalid_argument);
  std::vector<std::int32_t> ranges(8);
  CHECK_THROWS_WITH_AS(
      kernels().attention_block_forward({}, q, k, k, 2, {0, 2, 0, 2, true},
                                        indices(ranges, {1, 4, 2}), y, lse),
      "attention_block_forward: a causal block has no `visible`, whose ranges end at the diagonal",
      std::invalid_argument);
}
