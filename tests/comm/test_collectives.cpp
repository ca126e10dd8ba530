#include <doctest/doctest.h>

#include <mutex>

#include "tests/support/collective_checks.h"
#include "tests/support/narrow_collective_checks.h"
#include "tests/support/ranks.h"

using namespace lockstep;
using namespace lockstep::testing;

TEST_CASE(
    "collectives match a serial oracle, send the bytes of their formulas, and release scratch") {
  for (int ranks = 1; ranks <= 9; ++ranks) {
    for (const std::int64_t n : {0, 1, 30, 1009, 100'000}) {
      if (n == 100'000 && ranks != 3 && ranks != 4 && ranks != 9) continue;
      CAPTURE(ranks);
      CAPTURE(n);
      std::mutex mutex;
      std::string wrong;
      const std::string failure = on_threads(modelled_options(ranks), [&](Rank& rank) {
        for (int repetition = 0; repetition < (n < 1000 ? 3 : 1); ++repetition) {
          const std::string mine = CollectiveChecks{rank, n, n < 10'000 ? ranks : 2}();
          std::lock_guard lock{mutex};
          wrong += mine;
        }
      });
      CHECK(failure == "");
      CHECK(wrong == "");
    }
  }
}

TEST_CASE("narrow elements are added in f32 and rounded at every step of the ring, to the bit") {
  for (int ranks = 1; ranks <= 8; ++ranks) {
    for (const std::int64_t n : {0, 1, 30, 1009}) {
      for (const DType dtype : {DType::bf16, DType::f16}) {
        std::mutex mutex;
        std::string wrong;
        const std::string failure = on_threads(modelled_options(ranks), [&](Rank& rank) {
          const std::string mine = NarrowCollectiveChecks{rank, dtype, n}();
          std::lock_guard lock{mutex};
          wrong += mine;
        });
        CHECK(failure == "");
        CHECK(wrong == "");
      }
    }
  }
}

TEST_CASE("collectives on types that cannot be added are rejected") {
  on_threads(modelled_options(2), [&](Rank& rank) {
    std::vector<std::int32_t> numbers(4);
    std::vector<float> floats(4);
    const View indices{numbers.data(), {4}, DType::i32};
    CHECK_THROWS_WITH_AS(static_cast<void>(rank.world.all_reduce(indices)),
                         "all_reduce in world: the elements must be f32, bf16 or f16, not i32",
                         std::invalid_argument);
    CHECK_THROWS_WITH_AS(static_cast<void>(rank.world.all_to_all(
                             view(floats), View{floats.data(), {4}, DType::bf16})),
                         "all_to_all_v of f32 elements into bf16 elements", std::invalid_argument);
  });
}

TEST_CASE(
    "an algorithm's name may contain - or _; the error for an unknown name lists all algorithms") {
  CHECK(algorithm_of("recursive-doubling") == Algorithm::recursive_doubling);
  for (const Algorithm algorithm : all_reduce_algorithms)
    CHECK(algorithm_of(name_of(algorithm)) == algorithm);
  CHECK_THROWS_WITH_AS(algorithm_of("butterfly"),
                       doctest::Contains("ring, naive, tree, recursive_doubling, rabenseifner"),
                       UsageError);
}
