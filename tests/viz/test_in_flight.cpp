// Microbatches in flight over time.
#include <doctest/doctest.h>

#include "tests/viz/interactive.h"
#include "viz/data/window/in_flight.h"

using namespace lockstep;
using namespace lockstep::viz;

TEST_CASE("microbatches in flight by column, worked by hand") {
  // In ps: 1 from 10, 2 from 20, 1 from 40, none from 50; a second step from 80 to 90.
  const InFlightRank rank{.steps = {{{10, 1}, {20, 2}, {40, 1}, {50, 0}}, {{80, 1}, {90, 0}}},
                          .most = 2};
  using Columns = std::vector<int>;
  CHECK(in_flight_columns(rank, {0, 100}, 10) == Columns{-1, 1, 2, 2, 1, 0, -1, -1, 1, 0});
  // A column shows the highest number in it.
  CHECK(in_flight_columns(rank, {0, 100}, 2) == Columns{2, 1});
  CHECK(in_flight_columns(rank, {30, 40}, 2) == Columns{2, 2});
  CHECK(in_flight_columns(rank, {55, 75}, 2) == Columns{-1, -1});
  CHECK(in_flight_columns({}, {0, 100}, 2) == Columns{-1, -1});
}

TEST_CASE("in the steps in view, 1F1B has one microbatch less in flight on each next rank") {
  const auto most_of = [](const SampleRun& run) {
    Interactive viewer{run};
    std::vector<int> most;
    for (const InFlightRank& rank : in_flight_in_view(viewer.model)) most.push_back(rank.most);
    return most;
  };
  CHECK(most_of(sample_1f1b(4, 8, 3)) == std::vector{4, 3, 2, 1});
  CHECK(most_of(sample_gpipe(4, 8, 3)) == std::vector{8, 8, 8, 8});
}

TEST_CASE("with chunks, what is counted are pairs, and the legend says so") {
  const auto rank_0 = [](const SampleRun& run) {
    Interactive viewer{run};
    return in_flight_in_view(viewer.model).at(0);
  };
  // v p + p - 1 = 11 chunks on rank 0 (lesson 10), but there are only 8 microbatches.
  const InFlightRank chunked = rank_0(sample_interleaved(4, 2, 8, 3));
  CHECK(chunked.most == 11);
  CHECK(in_flight_words(chunked.chunks) == "microbatch × chunk in flight");
  CHECK(in_flight_words(rank_0(sample_1f1b(4, 8, 3)).chunks) == "microbatches in flight");
}
