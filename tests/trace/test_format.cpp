#include <doctest/doctest.h>

#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>
#include <random>
#include <string>

#include "core/trace/format.h"
#include "core/trace/recorder.h"
#include "viz/read/timeline/parse.h"
#include "viz/read/timeline/reader.h"

using namespace lockstep;

namespace {

std::string line_of(const TraceEvent& event) {
  std::string text;
  append_line(text, 3, event);
  return text;
}

}  // namespace

TEST_CASE("a line of each kind matches the format") {
  CHECK(
      line_of({.lane = 2,
               .step = 7,
               .span = {.name = "send",
                        .category = Category::communication,
                        .stage = 1,
                        .microbatch = 4,
                        .layer = 0,
                        .peer = 2,
                        .bytes = 16384,
                        .sequence = 9,
                        .group = "pp",
                        .group_size = 4,
                        .algorithm = "ring"},
               .start = 1'234'567,
               .end = 2'234'567}) ==
      R"({"ph":"X","name":"send","cat":"communication","pid":3,"tid":2,"ts":1.234567,"dur":1.000,)"
      R"("args":{"step":7,"stage":1,"microbatch":4,"layer":0,"bytes":16384,"peer":2,"group":"pp",)"
      R"("group_size":4,"algorithm":"ring","seq":9}},)"
      "\n");
  CHECK(line_of({.span = {.name = "action",
                          .category = Category::backward_input,
                          .stage = 2,
                          .microbatch = 11}}) ==
        R"({"ph":"X","name":"PP:2I11","cat":"backward_input","pid":3,"tid":0,"ts":0.000,)"
        R"("dur":0.000,"args":{"stage":2,"microbatch":11}},)"
        "\n");
  CHECK(
      line_of({.lane = 1,
               .span = {.name = "recv",
                        .category = Category::communication,
                        .message = 42,
                        .role = MessageRole::receives,
                        .payload = Payload::gradients},
               .start = 5000,
               .end = 5001}) ==
      R"({"ph":"X","name":"recv","cat":"communication","pid":3,"tid":1,"ts":0.005,"dur":0.000001,)"
      R"("bind_id":42,"flow_in":true,"args":{"carries":"gradients"}},)"
      "\n");
  CHECK(line_of({.span = {.name = "send",
                          .category = Category::wait,
                          .peer = 1,
                          .message = 42,
                          .role = MessageRole::sends,
                          .payload = Payload::activations}}) ==
        R"({"ph":"X","name":"send","cat":"wait","pid":3,"tid":0,"ts":0.000,"dur":0.000,)"
        R"("args":{"sends":42,"peer":1}},)"
        "\n");
  CHECK(line_of({.span = {.name = "linear", .bytes = 64, .flops = 1024}}) ==
        R"({"ph":"X","name":"linear","cat":"kernel","pid":3,"tid":0,"ts":0.000,"dur":0.000,)"
        R"("args":{"bytes":64,"flops":1024}},)"
        "\n");
  CHECK(line_of({.kind = TraceEvent::Kind::open,
                 .lane = 1,
                 .step = 2,
                 .span = {.name = "f", .category = Category::forward, .stage = 1, .microbatch = 7},
                 .start = 5'000'000,
                 .end = 105'000'001}) ==
        R"({"ph":"i","s":"t","name":"open","cat":"forward","pid":3,"tid":1,"ts":105.000001,)"
        R"("args":{"name":"PP:1F7","start":5.000,"step":2,"stage":1,"microbatch":7}},)"
        "\n");
  CHECK(line_of({.kind = TraceEvent::Kind::withdrawn,
                 .span = {.name = "recv", .category = Category::wait, .peer = 2},
                 .start = 5'000'000,
                 .end = 5'000'000}) ==
        R"({"ph":"i","s":"t","name":"withdrawn","cat":"wait","pid":3,"tid":0,"ts":5.000,)"
        R"("args":{"name":"recv","start":5.000,"peer":2}},)"
        "\n");
  CHECK(line_of({.kind = TraceEvent::Kind::memory, .bytes = {1, 2, 3, 4, 5}}) ==
        R"({"ph":"C","name":"memory","pid":3,"tid":0,"ts":0.000,"args":{"parameters":1,)"
        R"("gradients":2,"optimizer":3,"activations":4,"communication":5}},)"
        "\n");
  CHECK(line_of({.kind = TraceEvent::Kind::loss, .value = 5.5}) ==
        R"({"ph":"C","name":"loss","pid":3,"tid":0,"ts":0.000,"args":{"loss":5.5}},)"
        "\n");
  Recorder recorder;
  recorder.set_step(7);
  recorder.counter("tokens per expert", 2, {{"expert 0", 10}, {"expert 1", 0}}, 1'500'000);
  recorder.counter("requests", -1, {{"open", 4}}, 0);
  const std::vector<TraceEvent> counters = recorder.drain();
  REQUIRE(counters.size() == 2);
  CHECK(line_of(counters[0]) ==
        R"({"ph":"C","name":"tokens per expert","id":"layer 2","pid":3,"tid":0,"ts":1.500,)"
        R"("args":{"step":7,"layer":2,"expert 0":10,"expert 1":0}},)"
        "\n");
  CHECK(line_of(counters[1]) ==
        R"({"ph":"C","name":"requests","pid":3,"tid":0,"ts":0.000,"args":{"step":7,"open":4}},)"
        "\n");
}

TEST_CASE("times are written to the picosecond, and read back so") {
  std::mt19937_64 random{9};
  for (int round = 0; round < 2000; ++round) {
    const auto time =
        static_cast<Picoseconds>(random() >> (1 + random() % 62)) * (random() % 4 == 0 ? -1 : 1);
    std::string text;
    append_microseconds(text, time);
    CHECK(parse_microseconds(text) == time);
  }
}

TEST_CASE("a non-finite loss leaves the trace valid JSON") {
  for (const double loss : {std::nan(""), std::numeric_limits<double>::infinity(), -std::nan("")}) {
    const std::string line = line_of({.kind = TraceEvent::Kind::loss, .value = loss});
    CHECK(nlohmann::json::accept(line.substr(0, line.size() - 2)));
    Timeline timeline;
    TraceReader reader{timeline, TraceReader::Form::lines};
    reader.feed(line);
    CHECK(reader.malformed() == 0);
    REQUIRE(timeline.find_rank(3));
    CHECK(std::isnan(timeline.find_rank(3)->losses.front().loss));
  }
}
