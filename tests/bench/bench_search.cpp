// Measures how long lesson 11's search for a schedule takes.

#include "lessons/11_zero_bubble/automatic.h"
#include "tests/bench/side_by_side.h"

using namespace lockstep;
using namespace lockstep::bench;

namespace {

/// Times the search with the memory of ZB-H2 and the times of F, I and W that Qi et al. measured
/// ("Zero Bubble Pipeline Parallelism", 2023, Table 9: 8 ranks and 32 microbatches).
void search(benchmark::State& state) {
  const Search search{
      .microbatches = 32,
      .limit = 15,
      .times = {.stages = std::vector<StageTimes>(8, {.forward = picoseconds(18.513e-3),
                                                      .backward = picoseconds(27.417e-3),
                                                      .backward_input = picoseconds(18.086e-3),
                                                      .backward_weight = picoseconds(9.331e-3)})}};
  std::vector<double> seconds;
  for (int round = 0; round < 7; ++round)
    seconds.push_back(seconds_of([&] { benchmark::DoNotOptimize(automatic_schedule(search)); }));
  state.counters["value"] = median(seconds);
  state.counters["low"] = quantile(seconds, 0.25);
  state.counters["high"] = quantile(seconds, 0.75);
  state.counters["at_most"] = 1;
  state.SetLabel("seconds of a search for p = 8 and m = 32, with the memory of ZB-H2");
}

const int registered = [] {
  add("schedule/search", search);
  return 0;
}();

}  // namespace
