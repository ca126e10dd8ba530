#include <doctest/doctest.h>

#include <atomic>
#include <chrono>
#include <random>
#include <set>
#include <thread>

#include "core/run/active/stop.h"
#include "tests/support/ranks.h"

using namespace lockstep;
using namespace lockstep::testing;

namespace {

/// Ranks take steps at different speeds, and at a random moment, some rank is asked to stop.
/// Returns the numbers of steps that the ranks have completed.
std::set<int> steps_done(std::mt19937& random, bool processes, int ranks, int steps) {
  std::vector<std::unique_ptr<Stop>> stops;
  for (int rank = 0; rank < (processes ? ranks : 1); ++rank)
    stops.push_back(std::make_unique<Stop>(/*saves=*/true, processes));
  const auto stop_of = [&](int rank) -> Stop& {
    return *stops[processes ? static_cast<std::size_t>(rank) : 0];
  };
  const int asked = static_cast<int>(random()) % ranks;
  const auto moment = std::chrono::microseconds{random() % 3000};
  std::vector<std::chrono::microseconds> pace;
  for (int rank = 0; rank < ranks; ++rank) pace.emplace_back(random() % 300);
  std::vector<int> done(static_cast<std::size_t>(ranks));
  ThreadRun run{modelled_options(ranks)};
  std::thread signal{[&] {
    std::this_thread::sleep_for(moment);
    stop_of(std::abs(asked)).request();
  }};
  const std::string failure = run([&](Rank& rank) {
    Stop& stop = stop_of(rank.id);
    int& mine = done[static_cast<std::size_t>(rank.id)];
    while (mine < steps && stop.may_begin(rank, mine)) {
      std::this_thread::sleep_for(pace[static_cast<std::size_t>(rank.id)]);
      ++mine;
    }
    if (mine < steps && !stop.ended_early()) mine = -1;
    if (stop.any_requested(rank) && stop.steps() != mine) mine = -2;
  });
  signal.join();
  CHECK(failure == "");
  return {done.begin(), done.end()};
}

}  // namespace

TEST_CASE("after a request, all ranks end after the same step, whichever steps they are in") {
  std::mt19937 random{3};
  for (const bool processes : {false, true}) {
    int early = 0;
    for (int round = 0; round < 60; ++round) {
      CAPTURE(round);
      const std::set<int> steps = steps_done(random, processes, 4, 200);
      CHECK(steps.size() == 1);
      CHECK(*steps.begin() >= 0);
      early += *steps.begin() < 200;
    }
    CHECK(early > 0);
  }
}

TEST_CASE("only the first request lets a run save, and only until it has saved") {
  Stop without{/*saves=*/false, /*processes=*/false};
  CHECK_FALSE(without.request());
  CHECK_FALSE(without.requested());
  Stop stop{/*saves=*/true, /*processes=*/false};
  CHECK(stop.request());
  CHECK(stop.requested());
  CHECK_FALSE(stop.request());
  Stop late{/*saves=*/true, /*processes=*/false};
  late.saved();
  CHECK_FALSE(late.request());
  CHECK_FALSE(late.requested());
}
