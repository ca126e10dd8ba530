#include <doctest/doctest.h>

#include <mutex>

#include "tests/support/collective_checks.h"
#include "tests/support/ranks.h"

using namespace lockstep;
using namespace lockstep::testing;

TEST_CASE(
    "collectives equal a serial oracle, send what their formulas say, and give back scratch") {
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

TEST_CASE("an algorithm's name may be written with - or _; an unknown one is told the known") {
  CHECK(algorithm_of("recursive-doubling") == Algorithm::recursive_doubling);
  for (const Algorithm algorithm : all_reduce_algorithms)
    CHECK(algorithm_of(name_of(algorithm)) == algorithm);
  CHECK_THROWS_WITH_AS(algorithm_of("butterfly"),
                       doctest::Contains("ring, naive, tree, recursive_doubling, rabenseifner"),
                       UsageError);
}
