// The memory card's text under the cursor.
#include <doctest/doctest.h>
#include <fmt/format.h>

#include <string>
#include <vector>

#include "tests/viz/interactive.h"
#include "viz/data/step/memory_words.h"

using namespace lockstep;
using TipLines = std::vector<std::string>;

namespace {

/// One rank and one step of 10 µs. The rank holds 40 kB of weights, keeps activations from 2 µs to
/// 8 µs, and allocates scratch of 100 kB that no sample sees.
std::string memory_trace(bool with_parts) {
  const auto sample_of = [&](int at, int state, int activations) {
    return fmt::format(R"({{"ph":"C","name":"memory","pid":0,"tid":0,"ts":{},{})"
                       R"("args":{{"parameters":40000,"activations":{}}}}},)"
                       "\n",
                       at, with_parts ? fmt::format("\"state\":{},", state) : "", activations);
  };
  const auto meta = [&](const char* name, const char* args) {
    return with_parts ? fmt::format(R"({{"ph":"M","name":"{}","pid":0,"args":{{{}}}}},)"
                                    "\n",
                                    name, args)
                      : std::string{};
  };
  return meta("memory state",
              R"("state":0,"parts":[["parameters","qkv",0],["parameters","qkv",1]],)"
              R"("bytes":[0,20000,1,20000])") +
         sample_of(0, 0, 0) +
         meta("memory state",
              R"("state":1,"parts":[["activations","qkv",0],["activations","GELU input",0],)"
              R"(["activations","GELU input",1],["activations","losses",-1]],)"
              R"("bytes":[2,5000,3,4000,4,9000,5,100])") +
         sample_of(2, 1, 18100) + sample_of(8, 0, 0) +
         meta("memory state", R"("state":2,"parts":[["communication","scratch",-1]],)"
                              R"("bytes":[6,100000])") +
         meta("memory at peak", R"("step":0,"state":2)") +
         R"({"ph":"X","name":"step","cat":"step","pid":0,"tid":0,"ts":0,"dur":10,"args":{"step":0}},)"
         "\n";
}

void read_memory_trace(Timeline& timeline, bool with_parts) {
  TraceReader reader{timeline};
  reader.feed(memory_trace(with_parts));
  reader.finish();
  timeline.settle();
}

constexpr Picoseconds one_microsecond = 1'000'000;

}  // namespace

TEST_CASE("what fills the memory at a time, and at a step's peak") {
  Timeline timeline;
  read_memory_trace(timeline, true);
  const RankTimeline& rank = *timeline.find_rank(0);
  CHECK(viz::memory_words_at(timeline, rank, 5 * one_microsecond, 1 * one_microsecond) ==
        TipLines{"rank 0 at 4.00 µs: 58.1 kB", "40.0 kB parameters",
                 "    40.0 kB qkv: 20.0 kB in each of layers 0-1", "18.1 kB activations",
                 "    13.0 kB GELU input: 4.00 kB to 9.00 kB in layers 0-1",
                 "    5.00 kB qkv: layer 0", "    100 B of other kinds"});
  CHECK(viz::memory_words_at(timeline, rank, 1 * one_microsecond, 0) ==
        TipLines{"rank 0 at 1.00 µs: 40.0 kB", "40.0 kB parameters",
                 "    40.0 kB qkv: 20.0 kB in each of layers 0-1"});
  CHECK(viz::memory_words_at(timeline, rank, -1, 0).empty());
  const TipLines peak = viz::memory_words_at_peak(timeline, rank, 0);
  REQUIRE(peak.size() >= 3);
  CHECK(peak[0] == "rank 0, peak of step 0: 158 kB");
  CHECK(peak[1] == "100 kB communication");
  CHECK(peak[2] == "    100 kB scratch");
}

TEST_CASE("a trace without kinds: the categories alone") {
  Timeline timeline;
  read_memory_trace(timeline, false);
  const RankTimeline& rank = *timeline.find_rank(0);
  CHECK(viz::memory_words_at(timeline, rank, 5 * one_microsecond, 0) ==
        TipLines{"rank 0 at 5.00 µs: 58.1 kB", "40.0 kB parameters", "18.1 kB activations"});
  CHECK(viz::memory_words_at_peak(timeline, rank, 0) ==
        TipLines{"rank 0, peak of step 0: 58.1 kB", "40.0 kB parameters", "18.1 kB activations"});
}

TEST_CASE("the cursor on the memory card: on a plot its time, beside it the peak") {
  Interactive viewer{[](Timeline& timeline) { read_memory_trace(timeline, true); }};
  std::vector<std::string> titles;
  for (float y = 600; y < 900; y += 20)
    for (float x = 20; x < 1600; x += 30) {
      viewer.move(x, y);
      if (const TipLines& tip = viewer.screen.memory().tip(); !tip.empty())
        titles.push_back(tip.front());
    }
  const auto has = [&](const std::string& beginning) {
    return std::ranges::any_of(
        titles, [&](const std::string& title) { return title.starts_with(beginning); });
  };
  CHECK(has("rank 0 at "));
  CHECK(has("rank 0, peak of step 0"));
  viewer.move(300, 150);
  CHECK(viewer.screen.memory().tip().empty());
}
