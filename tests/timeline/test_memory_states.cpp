// Reads the contents of a rank's memory, also from traces that no run writes.
#include <doctest/doctest.h>
#include <fmt/format.h>

#include <string>

#include "viz/read/timeline/memory_breakdown.h"
#include "viz/read/timeline/reader.h"

using namespace lockstep;

namespace {

std::string state_line(int number, const std::string& parts, const std::string& bytes,
                       int rank = 0) {
  return fmt::format(R"({{"ph":"M","name":"memory state","pid":{},"tid":0,"args":)"
                     R"({{"state":{},"parts":[{}],"bytes":[{}]}}}},)"
                     "\n",
                     rank, number, parts, bytes);
}

std::string sample_line(int at, int state, int activations) {
  return fmt::format(R"({{"ph":"C","name":"memory","pid":0,"tid":0,"ts":{},"state":{},)"
                     R"("args":{{"activations":{}}}}},)"
                     "\n",
                     at, state, activations);
}

void read(Timeline& timeline, const std::string& text) {
  TraceReader reader{timeline, TraceReader::Form::lines};
  reader.feed(text);
  reader.finish();
  timeline.settle();
}

const std::string two_parts = R"(["activations","qkv",0],["activations","qkv",1])";

}  // namespace

TEST_CASE("a state is the difference from the one before") {
  Timeline timeline;
  read(timeline, state_line(0, two_parts, "0,10,1,20") +
                     state_line(1, R"(["activations","logits",-1])", "1,0,2,5") +
                     sample_line(1, 0, 30) + sample_line(2, 1, 15) +
                     R"({"ph":"M","name":"memory at peak","pid":0,"args":{"step":4,"state":0}},)"
                     "\n");
  const RankTimeline& rank = *timeline.find_rank(0);
  REQUIRE(rank.memory_states.count() == 2);
  CHECK(rank.memory_states.total(0) == 30);
  CHECK(rank.memory_states.bytes(0) == std::vector<std::int64_t>{10, 20, 0});
  CHECK(rank.memory_states.bytes(1) == std::vector<std::int64_t>{10, 0, 5});
  const auto first = memory_breakdown_at(timeline, rank, 1'500'000);
  REQUIRE(first);
  REQUIRE(first->categories.size() == 1);
  CHECK(first->categories[0].kinds.size() == 1);
  const auto digits = [](std::int64_t bytes) { return std::to_string(bytes); };
  CHECK(places_of(first->categories[0].kinds[0], digits) == "10 to 20 in layers 0-1");
  CHECK(places_of({"", 15, 5, {{0, 2}, {1, 2}, {2, 2}, {4, 2}, {6, 2}}}, digits) ==
        "2 in each of layers 0-2, 4, 6, 5 elsewhere");
  CHECK(places_of({"", 2, 0, {{3, 2}}}, digits) == "layer 3");
  CHECK(places_of({"", 5, 5, {}}, digits).empty());
  const auto second = memory_breakdown_at(timeline, rank, 2'000'000);
  REQUIRE(second);
  CHECK(second->categories[0].kinds[0].name == "qkv");
  CHECK(second->categories[0].kinds[1].name == "logits");
  CHECK(second->categories[0].kinds[1].outside == 5);
  CHECK_FALSE(memory_breakdown_at(timeline, rank, 0));
  CHECK(peak_of_steps(rank, 4, 4)->state == 0);
  CHECK_FALSE(peak_of_steps(rank, 0, 3));
}

TEST_CASE("states that no run writes are left out") {
  const auto count = [](const std::string& text) {
    Timeline timeline;
    read(timeline, text);
    const RankTimeline* rank = timeline.find_rank(0);
    return rank != nullptr ? rank->memory_states.count() : 0;
  };
  const std::string good = state_line(0, two_parts, "0,1");
  CHECK(count(good) == 1);
  CHECK(count(good + good) == 1);                                      // not the next number
  CHECK(count(state_line(1, two_parts, "0,1")) == 0);                  // the same
  CHECK(count(state_line(0, two_parts, "2,1")) == 0);                  // no such part
  CHECK(count(state_line(0, two_parts, "0,-1")) == 0);                 // a negative number of bytes
  CHECK(count(state_line(0, two_parts, "0,99999999999999999")) == 0);  // too many bytes
  CHECK(count(state_line(0, R"(["nothing","qkv",0])", "")) == 0);      // no such category
  CHECK(count(state_line(0, R"(["activations","qkv"])", "")) == 0);    // no layer
  CHECK(count(state_line(0, "7", "")) == 0);
  std::string parts;
  for (std::size_t i = 0; i <= most_memory_parts; ++i) parts += R"(["activations","x",0],)";
  parts.pop_back();
  CHECK(count(state_line(0, parts, "")) == 0);
  std::string all;
  for (std::size_t i = 0; i < most_memory_states + 5; ++i)
    all += state_line(static_cast<int>(i), "", "");
  CHECK(count(all) == static_cast<int>(most_memory_states));
}

TEST_CASE("a breakdown that contradicts its sample is not shown") {
  Timeline timeline;
  read(timeline, state_line(0, two_parts, "0,10") + sample_line(1, 0, 10) + sample_line(2, 0, 11) +
                     sample_line(3, 7, 10));
  const RankTimeline& rank = *timeline.find_rank(0);
  CHECK(memory_breakdown_at(timeline, rank, 1'000'000));
  CHECK_FALSE(memory_breakdown_at(timeline, rank, 2'000'000));
  CHECK(rank.memory[2].state == -1);  // there is no state 7
  CHECK_FALSE(memory_breakdown_at(timeline, rank, 3'000'000));
}

TEST_CASE("timelines that are joined keep their ranks' states and names") {
  Timeline first, second;
  read(first, state_line(0, R"(["gradients","head",-1])", "0,4", 1));
  read(second, state_line(0, two_parts, "0,10,1,10") + sample_line(1, 0, 20));
  first.absorb(std::move(second));
  first.settle();
  const auto breakdown = memory_breakdown_at(first, *first.find_rank(0), 1'000'000);
  REQUIRE(breakdown);
  CHECK(breakdown->categories[0].kinds[0].name == "qkv");
  CHECK(memory_breakdown(first, *first.find_rank(1), 0).categories[0].kinds[0].name == "head");
}
