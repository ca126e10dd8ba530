#include "core/plan/documents.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <random>

#include "core/plan/batch.h"

using namespace lockstep;

namespace {

/// Documents of long-tailed lengths, at most `longest`, that fill a sequence.
Documents random_documents(std::mt19937& random, int sequence, double mean, int longest) {
  std::lognormal_distribution<double> draw{0, 1};
  Documents documents;
  for (int left = sequence; left > 0; left -= documents.back())
    documents.push_back(std::clamp(static_cast<int>(mean * draw(random) * std::exp(-0.5)), 1,
                                   std::min(left, longest)));
  return documents;
}

/// Returns the scores of each position, counted one by one.
std::vector<int> scores_of_positions(const Documents& documents) {
  std::vector<int> scores;
  for (const int length : documents)
    for (int place = 0; place < length; ++place) scores.push_back(place + 1);
  return scores;
}

struct Balance {
  double excess = 0;  ///< the busiest rank's pairs beyond the mean
  double mean = 0;
  double share() const { return excess / mean; }
};

template <class PositionsOf>
Balance balance(const Documents& documents, int n, const PositionsOf& positions_of) {
  double sum = 0, most = 0;
  for (int rank = 0; rank < n; ++rank) {
    const auto pairs = static_cast<double>(attention_pairs(documents, positions_of(rank)));
    sum += pairs;
    most = std::max(most, pairs);
  }
  return {most - sum / n, sum / n};
}

Balance balance_of(ContextLayout layout, const Documents& documents, int n) {
  return balance(documents, n,
                 [&](int rank) { return context_positions(layout, documents, rank, n); });
}

}  // namespace

TEST_CASE("the pairs of some positions are those counted one by one") {
  std::mt19937 random{3};
  for (int round = 0; round < 200; ++round) {
    const int s = 1 + static_cast<int>(random() % 60);
    const Documents documents = random_documents(random, s, 9, s);
    const std::vector<int> scores = scores_of_positions(documents);
    const int a = static_cast<int>(random() % static_cast<unsigned>(s + 1));
    const int b = a + static_cast<int>(random() % static_cast<unsigned>(s - a + 1));
    CHECK(attention_pairs(documents, {{0, a}, {b, s}}) ==
          std::accumulate(scores.begin(), scores.begin() + a, 0) +
              std::accumulate(scores.begin() + b, scores.end(), 0));
  }
}

TEST_CASE("a balanced layout gives each rank as many tokens, and each token to one rank") {
  std::mt19937 random{5};
  for (int round = 0; round < 200; ++round) {
    const int n = 1 + static_cast<int>(random() % 8);
    const int s = n * (1 + static_cast<int>(random() % 150));
    const Documents documents = random_documents(random, s, 1 + static_cast<int>(random() % 90), s);
    std::vector<int> owners(static_cast<std::size_t>(s));
    for (const std::vector<Positions>& own : balanced_positions(documents, n)) {
      int tokens = 0, last = 0;
      for (const auto& [begin, end] : own) {
        CHECK(begin >= last);
        last = end;
        tokens += end - begin;
        for (int i = begin; i < end; ++i) ++owners[static_cast<std::size_t>(i)];
      }
      CHECK(tokens == s / n);
    }
    CHECK(std::ranges::count(owners, 1) == s);
  }
}

TEST_CASE("a balanced layout keeps its bound, however long the documents are") {
  std::mt19937 random{7};
  for (int round = 0; round < 400; ++round) {
    const int n = 2 + static_cast<int>(random() % 7);
    const int s = n * (1 + static_cast<int>(random() % 300));
    const Documents documents =
        random_documents(random, s, 1 + static_cast<int>(random() % static_cast<unsigned>(s)),
                         round % 3 == 0 ? s / n : s);
    CHECK(balance_of(ContextLayout::balanced, documents, n).excess <=
          balance_bound(documents, n) + 1e-9);
  }
  // For one document, the last blocks of the sequence, 32 per rank, differ by 3 blocks' lengths
  // squared.
  const int block = balanced_block(1024, 4);
  CHECK(block == 8);
  CHECK(balance_bound({1024}, 4) == 3 * block * block * 3 / 4.0);
}

TEST_CASE("on 20 packings, the busiest rank has at most 5 % more attention than the mean") {
  struct Case {
    int sequence, ranks;
    double mean;
  };
  for (const auto& [s, n, mean] : {Case{8192, 8, 300},
                                   {8192, 8, 600},
                                   {8192, 4, 400},
                                   {131072, 16, 2000},
                                   {512, 4, 40},
                                   {64, 4, 8}}) {
    std::mt19937 random{11};
    double worst = 0, worst_zigzag = 0, worst_bound = 0;
    for (int packing = 0; packing < 20; ++packing) {
      const Documents documents = random_documents(random, s, mean, s / n);
      const Balance balanced = balance_of(ContextLayout::balanced, documents, n);
      worst = std::max(worst, balanced.share());
      worst_bound = std::max(worst_bound, balance_bound(documents, n) / balanced.mean);
      worst_zigzag =
          std::max(worst_zigzag, balance_of(ContextLayout::zigzag, documents, n).share());
    }
    MESSAGE(s, " tokens, ", n, " ranks, documents of ", mean, ", blocks of ", balanced_block(s, n),
            ": ", 100 * worst, " % (bound ", 100 * worst_bound, " %), zigzag ", 100 * worst_zigzag,
            " %");
    CHECK(worst <= 0.05);
    CHECK(worst_zigzag > 0.2);
  }
}

TEST_CASE("a sequence of one document is balanced within 1 %") {
  for (const int n : {2, 4, 8})
    CHECK(balance_of(ContextLayout::balanced, {64 * n}, n).share() < 0.01);
}
