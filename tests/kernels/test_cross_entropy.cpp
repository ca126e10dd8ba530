#include <doctest/doctest.h>

#include "tests/kernels/support.h"

using namespace lockstep;
using namespace lockstep::testing;

namespace {

struct CrossEntropy {
  std::int64_t vocabulary;
  std::vector<std::int32_t> targets;
  Array logits, losses, lse, dlogits;

  CrossEntropy(std::int64_t rows, std::int64_t vocabulary_, Random& random, float deviation = 1.0F,
               std::int64_t gap = 0)
      : vocabulary(vocabulary_),
        targets(random_indices(random, rows, vocabulary_)),
        logits{{rows, vocabulary_}, gap},
        losses{{rows}},
        lse{{rows}},
        dlogits{{rows, vocabulary_}, gap == 0 || (vocabulary_ + gap) % 8 == 0 ? gap : 5} {
    logits.randomize(random, deviation);
  }
  View target_view() { return indices(targets, {static_cast<std::int64_t>(targets.size())}); }
  void forward() { kernels().cross_entropy_forward({}, logits, target_view(), losses, lse); }
  void backward(float scale) {
    kernels().cross_entropy_backward({}, logits, target_view(), lse, scale, dlogits);
  }
  std::size_t size() const { return static_cast<std::size_t>(vocabulary); }
};

}  // namespace

TEST_CASE("cross-entropy and its gradient, over random shapes") {
  Random random{40};
  for (int trial = 0; trial < 60; ++trial) {
    // Vocabulary sizes from one token to several online-softmax blocks.
    const std::int64_t rows = random.between(1, 30);
    const std::int64_t vocabulary = random.between(1, trial % 3 == 0 ? 5 : 1700);
    // Without a gap, with any, or with one that aligns the next row, as the model's logits have.
    const std::int64_t gaps[] = {0, random.between(1, 9), 8 - vocabulary % 8};
    CrossEntropy t{rows, vocabulary, random, trial % 2 ? 1.0F : 8.0F, gaps[trial / 2 % 3]};
    CAPTURE(t.targets.size());
    CAPTURE(t.vocabulary);
    t.forward();
    const auto want = oracle::cross_entropy(t.logits.doubles(), t.targets, t.size());
    CHECK(error(t.losses, want.losses) < tolerance);
    CHECK(error(t.lse, want.lse) < tolerance);
    t.backward(0.125F);
    if (t.vocabulary > 1)
      CHECK(error(t.dlogits, oracle::cross_entropy_backward(t.logits.doubles(), t.targets, t.size(),
                                                            0.125)) < tolerance);
    // The gradient is bitwise identical if it is computed in place.
    Array aside{t.logits.view().shape};
    aside.set(t.dlogits);
    kernels().cross_entropy_backward({}, t.logits, t.target_view(), t.lse, 0.125F, t.logits);
    CHECK(same_bits(t.logits, aside));
    CHECK(t.logits.untouched());
  }
}

TEST_CASE("cross-entropy of logits of ten thousand") {
  Random random{41};
  CrossEntropy t{20, 600, random, 1e4F};
  t.forward();
  const auto want = oracle::cross_entropy(t.logits.doubles(), t.targets, t.size());
  CHECK(error(t.losses, want.losses) < tolerance);
  CHECK(error(t.lse, want.lse) < tolerance);
  t.backward(1.0F);
  // At this size lse has a rounding error of up to 2e-3, which becomes the relative error of the
  // probabilities.
  CHECK(error(t.dlogits,
              oracle::cross_entropy_backward(t.logits.doubles(), t.targets, t.size(), 1.0)) < 2e-3);
}

TEST_CASE("cross-entropy of equal logits is log V, however large they are") {
  Random random{42};
  for (float value : {0.0F, 1e4F, -1e4F}) {
    CrossEntropy t{3, 1000, random};
    t.logits.set(value);
    t.forward();
    for (std::int64_t r = 0; r < 3; ++r)
      CHECK(t.losses[r] == doctest::Approx(std::log(1000.0)).epsilon(1e-6));
  }
}

TEST_CASE("a logit of minus infinity has no probability") {
  Random random{43};
  CrossEntropy t{1, 600, random};
  for (std::int64_t i = 0; i < 600; ++i) t.logits[i] = i < 520 ? -infinity : 0.0F;
  t.targets[0] = 599;
  t.forward();
  CHECK(t.losses[0] == doctest::Approx(std::log(80.0)).epsilon(1e-6));
  t.backward(1.0F);
  CHECK(t.dlogits[0] == 0.0F);
  CHECK(t.dlogits[520] == doctest::Approx(1.0 / 80.0).epsilon(1e-5));
}

TEST_CASE("cross-entropy divided by vocabulary: no part needs another part's logits") {
  Random random{45};
  for (int trial = 0; trial < 60; ++trial) {
    const std::int64_t n = random.between(1, 30), ranks = random.between(1, 6);
    const bool few = trial % 3 == 0;  // fewer tokens than ranks, perhaps
    CrossEntropy t{n, random.between(1, few ? 7 : 1700), random, few || trial % 2 ? 1.0F : 8.0F};
    CAPTURE(t.vocabulary);
    CAPTURE(ranks);
    std::int64_t columns = 0;
    const auto parts = vocabulary_parts(t.vocabulary, ranks, columns);
    Array statistics{{ranks, 3, n}};
    std::vector<Array> shards;
    const auto of_rank = [&](std::size_t rank) {
      View view = statistics;
      view.data = view.f32() + static_cast<std::int64_t>(rank) * 3 * n;
      view.shape = {3, n};
      return view;
    };
    for (std::size_t rank = 0; rank < parts.size(); ++rank) {
      Array& shard = shards.emplace_back(Array{{n, columns}}.set(not_a_number));
      for (std::int64_t i = 0; i < n * columns; ++i)
        if (i % columns < parts[rank].count)
          shard[i] = t.logits[i / columns * t.vocabulary + parts[rank].first + i % columns];
      kernels().cross_entropy_part_forward({}, shard, t.target_view(), parts[rank], of_rank(rank));
    }
    CHECK(statistics.untouched());
    kernels().cross_entropy_merge({}, statistics, t.losses, t.lse);
    const auto want = oracle::cross_entropy(t.logits.doubles(), t.targets, t.size());
    CHECK(error(t.losses, want.losses) < tolerance);
    CHECK(error(t.lse, want.lse) < tolerance);

    for (std::size_t rank = 0; rank < parts.size(); ++rank)  // in place
      kernels().cross_entropy_part_backward({}, shards[rank], t.target_view(), parts[rank], t.lse,
                                            0.125F, shards[rank]);
    for (std::size_t rank = 0; rank < parts.size(); ++rank) {
      CHECK(shards[rank].untouched());
      for (std::int64_t i = 0; i < n * columns; ++i) {
        if (i % columns < parts[rank].count)
          t.dlogits[i / columns * t.vocabulary + parts[rank].first + i % columns] = shards[rank][i];
        else
          CHECK(shards[rank][i] == 0.0F);  // padding has no gradient
      }
    }
    if (t.vocabulary > 1)
      CHECK(error(t.dlogits, oracle::cross_entropy_backward(t.logits.doubles(), t.targets, t.size(),
                                                            0.125)) < tolerance);
  }
}

TEST_CASE("a target outside the vocabulary is named") {
  if (!on_cpu()) return;
  Random random{44};
  CrossEntropy t{3, 10, random};
  t.targets[1] = 10;
  CHECK_THROWS_WITH_AS(
      t.forward(), "cross_entropy_forward: target 10 of row 1 is outside the vocabulary [0, 10)",
      std::out_of_range);
}
