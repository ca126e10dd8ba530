// Lessons 02 and 05 on the wall clock, two ranks as threads: what data parallelism loses against
// copies that do not talk to one another, and what ZeRO-3 loses against data parallelism.

#include "tests/bench/copies.h"
#include "tests/support/ranks.h"

using namespace lockstep;
using namespace lockstep::bench;

namespace {

constexpr int rounds = 61;

using Comparison = Compared (*)(Rank&, const CopiesWork&, int);

void on_two_threads(benchmark::State& state, const CopiesWork& work, Comparison comparison,
                    double at_least, double time_at_most, const std::string& what) {
  Compared compared;
  const std::string wrong = testing::on_threads(two_copies(work), [&](Rank& rank) {
    Compared mine = comparison(rank, work, rounds);
    if (rank.id == 0) compared = std::move(mine);
  });
  if (!wrong.empty()) return state.SkipWithError(wrong.c_str());
  report(state, compared, at_least, time_at_most, what);
}

[[maybe_unused]] const bool registered = [] {
  for (const CopiesWork& work : copies_works()) {
    const bool bound = &work == copies_works().data();
    add(fmt::format("overlap_alone_threads_{}", work.name), [=](benchmark::State& state) {
      on_two_threads(state, work, overlap_against_alone, bound ? 0.95 : 0, 0,
                     "DP with overlap on 2 ranks over 2 independent copies");
    });
    add(fmt::format("zero_3_overlap_threads_{}", work.name), [=](benchmark::State& state) {
      on_two_threads(state, work, zero_3_against_overlap, 0, bound ? 1.1 : 0,
                     "time of ZeRO-3 with prefetch over DP's");
    });
  }
  return true;
}();

}  // namespace
