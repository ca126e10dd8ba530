#include <doctest/doctest.h>

#include <latch>

#include "tests/support/mismatches.h"
#include "tests/support/ranks.h"

// A Work that is dropped without wait() cancels its unfinished operation: no rank hangs, no rank
// accesses its buffers afterwards, and the other ranks fail with an error message.

using namespace lockstep;
using namespace lockstep::testing;

namespace {

bool untouched(const std::vector<float>& values) {
  return std::all_of(values.begin(), values.end(), [](float value) { return value == -7.0F; });
}

}  // namespace

TEST_CASE("dropped: a collective that is queued behind another") {
  std::latch dropped{1};
  bool kept = false;
  const std::string failure = on_threads(modelled_options(2), [&](Rank& rank) {
    std::vector<float> values(8, 1.0F), more(8, 1.0F), last(8, 1.0F);
    if (rank.id == 0) {
      Work first = rank.world.all_reduce(view(values));
      Work third;
      {
        Work second = rank.world.all_reduce(view(more));
        third = rank.world.broadcast(view(last), 0);
      }
      std::fill(more.begin(), more.end(), -7.0F);
      dropped.count_down();
      first.wait();
      kept = values == std::vector<float>(8, 2.0F);
      try {
        third.wait();
      } catch (...) {
        kept = kept && untouched(more);
        throw;
      }
    } else {
      dropped.wait();
      rank.world.all_reduce(view(values)).wait();
      rank.world.all_reduce(view(more)).wait();
    }
  });
  CHECK(kept);
  CHECK(missing(failure, {"rank 0: the all_reduce of world (test_dropped.cpp:",
                          "was dropped before it was done"}) == "");
}

TEST_CASE("dropped: a collective that is running") {
  for (const Algorithm algorithm : all_reduce_algorithms) {
    CAPTURE(name_of(algorithm));
    std::latch dropped{1};
    std::vector<float> values(8, 1.0F);
    ThreadRun run{modelled_options(2)};
    const std::string failure = run([&](Rank& rank) {
      std::vector<float> more(8, 1.0F);
      if (rank.id == 0) {
        {
          Work sum = rank.world.all_reduce(view(values), algorithm);
          std::this_thread::sleep_for(std::chrono::milliseconds{2});
        }
        std::fill(values.begin(), values.end(), -7.0F);
        dropped.count_down();
      } else {
        dropped.wait();
        rank.world.all_reduce(view(more), algorithm).wait();
      }
    });
    CHECK(untouched(values));
    CHECK(missing(failure, {"rank 1 waits for rank 0", "has finished"}) == "");
    CHECK(run.ranks[0]->memory.current().of(MemoryCategory::communication) == 0);
  }
}

TEST_CASE("dropped: at any moment of a collective") {
  for (int repetition = 0; repetition < 200; ++repetition) {
    std::vector<float> values(999, 1.0F);
    const auto algorithm = all_reduce_algorithms[repetition % 5];
    const std::string failure = on_threads(modelled_options(3), [&](Rank& rank) {
      std::vector<float> mine(999, 1.0F);
      if (rank.id == repetition % 3) {
        {
          Work sum = rank.world.all_reduce(view(values), algorithm);
          std::this_thread::sleep_for(std::chrono::microseconds{repetition % 7 * 20});
        }
        std::fill(values.begin(), values.end(), -7.0F);
      } else {
        rank.world.all_reduce(view(mine), algorithm).wait();
        // (The collective may have finished before it was dropped.)
        if (mine != std::vector<float>(999, 3.0F)) throw RunError("other values");
      }
    });
    CHECK(untouched(values));
    if (failure != "")
      CHECK(missing(failure, {fmt::format("rank {}", repetition % 3), "has finished"}) == "");
  }
}

TEST_CASE("dropped: finished work is not lost") {
  const std::string failure = on_threads(modelled_options(3), [&](Rank& rank) {
    for (int i = 0; i < 20; ++i) {
      std::vector<float> values(8, 1.0F), more(8, 1.0F);
      Work first = rank.world.all_reduce(view(values));
      rank.world.all_reduce(view(more)).wait();  // completes the first all_reduce too
      if (i % 3 != rank.id) first.wait();
    }
  });
  CHECK(failure == "");
}

TEST_CASE("dropped: a rank that throws withdraws its collectives, and no rank hangs") {
  for (int repetition = 0; repetition < 100; ++repetition) {
    const std::string failure = on_threads(modelled_options(4), [&](Rank& rank) {
      Group other{rank.endpoint,
                  {0, 1, 2, 3},
                  "other",
                  rank.transport->open_channels(Group::channels_taken)};
      std::vector<float> values(99), more(99), last(99);
      std::vector<Work> works;  // destroyed in order of issue
      works.push_back(rank.world.all_reduce(view(values)));
      works.push_back(other.all_reduce(view(more), Algorithm::tree));
      works.push_back(rank.world.all_gather(view(last)));
      if (rank.id == repetition % 4) throw std::runtime_error("out of luck");
      works[2].wait();
      works[1].wait();
      rank.world.barrier().wait();
    });
    CHECK(failure == fmt::format("rank {}: out of luck", repetition % 4));
  }
}
