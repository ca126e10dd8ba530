#include <doctest/doctest.h>

#include "tests/support/mismatches.h"
#include "tests/support/ranks.h"

using namespace lockstep;
using namespace lockstep::testing;

TEST_CASE("when ranks disagree, the error names both calls") {
  for (const Mismatch& mismatch : mismatches()) {
    CAPTURE(mismatch.name);
    for (int repetition = 0; repetition < 10; ++repetition) {
      const std::string failure = on_threads(modelled_options(4), mismatch.body);
      CHECK(missing(failure, mismatch.words) == "");
    }
  }
}

TEST_CASE("ranks that use different algorithms for one collective never succeed") {
  for (int ranks = 2; ranks <= 5; ++ranks)
    for (const Algorithm one : all_reduce_algorithms)
      for (const Algorithm other : all_reduce_algorithms)
        for (int odd = 0; odd < ranks; ++odd) {
          const std::string failure = on_threads(modelled_options(ranks), [&](Rank& rank) {
            std::vector<float> values(8);
            rank.world.all_reduce(view(values), rank.id == odd ? one : other).wait();
          });
          const auto reported = failure.find("all_reduce") != std::string::npos;
          CHECK_MESSAGE(reported == (one != other), name_of(one), " ", name_of(other), ": ",
                        failure);
        }
}

TEST_CASE("different roots never succeed, whichever rank passes which root") {
  for (int ranks = 2; ranks <= 4; ++ranks) {
    int all = 1;
    for (int i = 0; i < ranks; ++i) all *= ranks;
    for (int code = 0; code < all; ++code) {
      std::vector<int> roots;
      for (int i = 0, rest = code; i < ranks; ++i, rest /= ranks) roots.push_back(rest % ranks);
      const bool agreed = std::count(roots.begin(), roots.end(), roots[0]) == ranks;
      for (const bool gathers : {false, true}) {
        const std::string failure = on_threads(modelled_options(ranks), [&](Rank& rank) {
          std::vector<float> values(8);
          const int root = roots[static_cast<std::size_t>(rank.id)];
          (gathers ? rank.world.gather(view(values), root)
                   : rank.world.broadcast(view(values), root))
              .wait();
        });
        const auto reported = failure.find(gathers ? "gather" : "broadcast") != std::string::npos;
        CHECK_MESSAGE(reported == !agreed, "roots coded ", code, " of ", ranks, ": ", failure);
      }
    }
  }
}

TEST_CASE("a collective with impossible arguments is rejected at once") {
  const auto refused = [](const std::function<void(Group&, View, View)>& ask) {
    return on_threads(modelled_options(2), [&](Rank& rank) {
      std::vector<float> out(8), in(8);
      ask(rank.world, view(out), view(in));
    });
  };
  CHECK(missing(refused([](Group& world, View out, View in) {
                  world.all_to_all(out.columns(0, 7), in).wait();
                }),
                {"all_to_all of 7 into 8 elements"}) == "");
  CHECK(missing(refused([](Group& world, View out, View in) {
                  world.all_to_all_v(out, {4}, in, {4, 4}).wait();
                }),
                {"all_to_all_v: there must be one count per member"}) == "");
  CHECK(missing(refused([](Group& world, View out, View in) {
                  world.all_to_all_v(out, {4, 5}, in, {4, 4}).wait();
                }),
                {"the counts must not exceed the views"}) == "");
}
