#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "tests/kernels/support.h"
#include "tests/support/portion.h"

using namespace lockstep;
using namespace lockstep::testing;

// The attention of some queries to some keys, its merge with the attention to other keys, and its
// gradients, compared with a serial softmax over all keys.

namespace {

/// Sizes: q is (b, s, h), k and v are (b, keys, h).
struct Sizes {
  std::int64_t b, s, keys, heads, d;
  std::int64_t h() const { return heads * d; }
};

/// The complete softmax without a mask, and its gradients, in doubles.
struct Oracle {
  Doubles y, lse, dq, dk, dv;

  Oracle(const Sizes& n, const Doubles& q, const Doubles& k, const Doubles& v, const Doubles& dy)
      : y(q.size()), dq(q.size()), dk(k.size()), dv(k.size()) {
    const double scale = 1.0 / std::sqrt(static_cast<double>(n.d));
    for (std::int64_t b = 0; b < n.b; ++b)
      for (std::int64_t head = 0; head < n.heads; ++head)
        for (std::int64_t i = 0; i < n.s; ++i) {
          const auto at = [&](std::int64_t rows, std::int64_t row) {
            return static_cast<std::size_t>((b * rows + row) * n.h() + head * n.d);
          };
          const auto dot = [&](const Doubles& a, std::size_t from, const Doubles& c,
                               std::size_t with) {
            double sum = 0;
            for (std::size_t e = 0; e < static_cast<std::size_t>(n.d); ++e)
              sum += a[from + e] * c[with + e];
            return sum;
          };
          std::vector<double> p(static_cast<std::size_t>(n.keys));
          for (std::int64_t j = 0; j < n.keys; ++j)
            p[static_cast<std::size_t>(j)] = scale * dot(q, at(n.s, i), k, at(n.keys, j));
          const double largest = *std::max_element(p.begin(), p.end());
          double sum = 0, mean = 0;
          for (double& each : p) sum += each = std::exp(each - largest);
          lse.push_back(largest + std::log(sum));
          for (std::int64_t j = 0; j < n.keys; ++j) {
            double& each = p[static_cast<std::size_t>(j)];
            each /= sum;
            mean += each * dot(dy, at(n.s, i), v, at(n.keys, j));
            for (std::size_t e = 0; e < static_cast<std::size_t>(n.d); ++e)
              y[at(n.s, i) + e] += each * v[at(n.keys, j) + e];
          }
          for (std::int64_t j = 0; j < n.keys; ++j) {
            const double each = p[static_cast<std::size_t>(j)];
            const double ds = scale * each * (dot(dy, at(n.s, i), v, at(n.keys, j)) - mean);
            for (std::size_t e = 0; e < static_cast<std::size_t>(n.d); ++e) {
              dv[at(n.keys, j) + e] += each * dy[at(n.s, i) + e];
              dq[at(n.s, i) + e] += ds * k[at(n.keys, j) + e];
              dk[at(n.keys, j) + e] += ds * q[at(n.s, i) + e];
            }
          }
        }
  }
};

/// Cuts [0, n) into up to three ranges, in random order.
std::vector<std::pair<std::int64_t, std::int64_t>> ranges(Random& random, std::int64_t n) {
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
  for (int trial = 0; trial < (on_cpu() ? 30 : portion_of(30, 12)); ++trial) {
    const std::int64_t longest = trial % 2 ? 12 : 150;
    const Sizes n{.b = random.between(1, 3),
                  .s = random.between(1, longest),
                  .keys = random.between(2, longest),
                  .heads = random.between(1, 4),
                  .d = random.between(1, 40)};
    CAPTURE(n.b);
    CAPTURE(n.s);
    CAPTURE(n.keys);
    CAPTURE(n.heads);
    CAPTURE(n.d);
    const std::int64_t gap = trial % 3;
    const int heads = static_cast<int>(n.heads);
    const Shape of_queries{n.b, n.s, n.h()}, of_keys{n.b, n.keys, n.h()};
    Array q{of_queries, gap}, k{of_keys, gap}, v{of_keys, gap}, dy{of_queries};
    for (Array* each : {&q, &k, &v, &dy}) each->randomize(random);
    const Oracle want{n, q.doubles(), k.doubles(), v.doubles(), dy.doubles()};

    // Every pair of a range of queries and a range of keys is one block.
    Array y{of_queries}, lse{{n.b, n.heads, n.s}};
    const auto key_ranges = ranges(random, n.keys);
    for (std::size_t i = 0; i < key_ranges.size(); ++i) {
      const auto [first_key, keys] = key_ranges[i];
      if (i == 0) {
        kernels().attention_block_forward({}, q, k, v, heads, {0, n.s, first_key, keys}, {}, y,
                                          lse);
        continue;
      }
      for (const auto& [first, count] : ranges(random, n.s)) {
        Array part{{n.b, count, n.h()}}, lse_part{{n.b, n.heads, count}};
        kernels().attention_block_forward({}, q, k, v, heads, {first, count, first_key, keys}, {},
                                          part, lse_part);
        kernels().attention_merge({}, part, lse_part, heads, first, y, lse);
      }
    }
    CHECK(error(y, want.y) < tolerance);
    CHECK(error(lse, want.lse) < tolerance);

    Array dq{of_queries, gap}, dk{of_keys, gap}, dv{of_keys, gap};
    for (Array* each : {&dq, &dk, &dv}) each->randomize(random);
    const Doubles before[] = {dq.doubles(), dk.doubles(), dv.doubles()};
    for (const auto& [first_key, keys] : key_ranges)
      for (const auto& [first, count] : ranges(random, n.s))
        kernels().attention_block_backward({}, dy, q, k, v, y, lse, heads,
                                           {first, count, first_key, keys}, {}, dq, dk, dv);
    CHECK(error(dq, plus(want.dq, before[0])) < tolerance);
    CHECK(error(dk, plus(want.dk, before[1])) < tolerance);
    CHECK(error(dv, plus(want.dv, before[2])) < tolerance);
  }
}

TEST_CASE("a causal block is one block per query, of the keys up to it") {
  Random random{43};
  for (int trial = 0; trial < (on_cpu() ? 20 : portion_of(20, 8)); ++trial) {
    const std::int64_t longest = trial % 2 ? 12 : 150;
    const Sizes n{.b = random.between(1, 2),
                  .s = random.between(1, longest),
                  .keys = random.between(1, longest),
                  .heads = random.between(1, 3),
                  .d = random.between(1, 40)};
    const std::int64_t c = random.between(1, std::min(n.s, n.keys));
    const std::int64_t first = random.between(0, n.s - c),
                       first_key = random.between(0, n.keys - c);
    CAPTURE(n.s);
    CAPTURE(n.keys);
    CAPTURE(c);
    const std::int64_t gap = trial % 3;
    const int heads = static_cast<int>(n.heads);
    const Shape of_queries{n.b, n.s, n.h()}, of_keys{n.b, n.keys, n.h()};
    Array q{of_queries, gap}, k{of_keys, gap}, v{of_keys, gap}, dy{of_queries};
    for (Array* each : {&q, &k, &v, &dy}) each->randomize(random);
    Array whole_y{of_queries}, whole_lse{{n.b, n.heads, n.s}};  // for backward: any softmax will do
    kernels().attention_block_forward({}, q, k, v, heads, {0, n.s, 0, n.keys}, {}, whole_y,
                                      whole_lse);

    const AttentionBlock triangle{first, c, first_key, c, true};
    Array y{{n.b, c, n.h()}}, lse{{n.b, n.heads, c}};
    kernels().attention_block_forward({}, q, k, v, heads, triangle, {}, y, lse);
    Array dq{of_queries, gap}, dk{of_keys, gap}, dv{of_keys, gap};
    Array want_dq{of_queries, gap}, want_dk{of_keys, gap}, want_dv{of_keys, gap};
    for (Array* each : {&dq, &dk, &dv, &want_dq, &want_dk, &want_dv}) each->set(0.0F);
    kernels().attention_block_backward({}, dy, q, k, v, whole_y, whole_lse, heads, triangle, {}, dq,
                                       dk, dv);

    Doubles want_y(y.doubles().size()), want_lse(lse.doubles().size());
    for (std::int64_t i = 0; i < c; ++i) {
      const AttentionBlock one{first + i, 1, first_key, i + 1};
      Array row{{n.b, 1, n.h()}}, row_lse{{n.b, n.heads, 1}};
      kernels().attention_block_forward({}, q, k, v, heads, one, {}, row, row_lse);
      kernels().attention_block_backward({}, dy, q, k, v, whole_y, whole_lse, heads, one, {},
                                         want_dq, want_dk, want_dv);
      for (std::int64_t b = 0; b < n.b; ++b) {
        for (std::int64_t e = 0; e < n.h(); ++e)
          want_y[static_cast<std::size_t>((b * c + i) * n.h() + e)] =
              row.doubles()[static_cast<std::size_t>(b * n.h() + e)];
        for (std::int64_t head = 0; head < n.heads; ++head)
          want_lse[static_cast<std::size_t>((b * n.heads + head) * c + i)] =
              row_lse.doubles()[static_cast<std::size_t>(b * n.heads + head)];
      }
    }
    CHECK(error(y, want_y) < tolerance);
    CHECK(error(lse, want_lse) < tolerance);
    CHECK(error(dq, want_dq.doubles()) < tolerance);
    CHECK(error(dk, want_dk.doubles()) < tolerance);
    CHECK(error(dv, want_dv.doubles()) < tolerance);
  }
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
    CHECK(y[3 * h + c] == before[3 * h + c]);  // e^-3003 is no part of the sum
    CHECK(y[4 * h + c] == part[h + c]);
    CHECK(y[3 * h + 3 + c] == doctest::Approx((before[3 * h + 3 + c] + part[3 + c]) / 2));
    CHECK(y[4 * h + 3 + c] == before[4 * h + 3 + c]);
  }
  CHECK(lse[3] == 4003.0F);
  CHECK(lse[4] == 9000.0F);
  CHECK(lse[8] == doctest::Approx(4008.0 + std::log(2.0)));
  CHECK(lse[9] == 4009.0F);
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
}
