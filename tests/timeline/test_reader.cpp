#include <doctest/doctest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <random>
#include <string>
#include <tuple>

#include "core/base/error.h"
#include "core/trace/writer.h"
#include "tests/support/temporary_folder.h"
#include "viz/read/timeline/parse.h"
#include "viz/read/timeline/reader.h"

using namespace lockstep;

namespace {

const std::string sample =
    R"trace([
{"ph":"M","name":"lockstep","pid":0,"tid":0,"args":{"format":1,"run":"20260101-120000-09","lesson":"09 1F1B","rank":0,"ranks":2,"mesh":{"pp":2,"dp":1},"device":"cpu","launch":"threads","clock":"modelled","cluster":"classroom","clock_offset_ns":123456789012,"clock_uncertainty_ns":5,"predicted":{"bubble":0.272727,"formula":"(p-1)/(m+p-1)","schedule":"1f1b","stages":2,"microbatches":8}}},
{"ph":"M","name":"process_name","pid":0,"args":{"name":"rank zero"}},
{"ph":"M","name":"thread_name","pid":0,"tid":1,"args":{"name":"send activations → 1"}},
{"ph":"X","name":"PP:0F3","cat":"forward","pid":0,"tid":0,"ts":12.345678,"dur":3.000,"args":{"step":2,"stage":0,"microbatch":3}},
{"ph":"X","name":"send","cat":"communication","pid":0,"tid":1,"ts":15.345678,"dur":0.5,"args":{"step":2,"stage":0,"microbatch":3,"bytes":16384,"peer":1,"group":"pp","group_size":2,"algorithm":"ring","seq":7}},
{"ph":"s","name":"message","cat":"communication","id":123,"pid":0,"tid":1,"ts":15.345678},
[
{"ph":"f","bp":"e","name":"message","cat":"communication","id":123,"pid":1,"tid":2,"ts":16.1},
{"ph":"C","name":"memory","pid":0,"ts":20.0,"args":{"parameters":1,"gradients":1,"optimizer":2,"activations":3,"communication":4}},
{"ph":"C","name":"loss","pid":1,"ts":99.0,"args":{"loss":5.545}},
{"ph":"C","name":"tokens per expert","id":"layer 4","pid":0,"tid":0,"ts":21.0,"args":{"step":2,"layer":4,"expert 0":5,"expert 1":7}},
{"ph":"C","name":"another tool's counter","pid":0,"ts":22.0,"args":{"percent":5}},
{"ph":"i","name":"open","s":"t","cat":"wait","pid":1,"tid":0,"ts":150.0,"args":{"name":"receive","start":40.5,"peer":0,"step":2}},
{"ph":"X","name":"step","cat":"step","pid":0,"tid":0,"ts":12,"dur":10,"args":{"step":2}},
{"ph":"i","name":"end","s":"p","pid":0,"ts":100.0,"args":{"spans":3}},
)trace";

void check_sample(const Timeline& timeline) {
  CHECK(timeline.run().lesson == "09 1F1B");
  CHECK(timeline.run().cluster == "classroom");
  CHECK(timeline.run().mesh == std::vector<std::pair<std::string, int>>{{"pp", 2}, {"dp", 1}});
  CHECK(timeline.prediction(2).bubble == doctest::Approx(0.272727));
  CHECK(timeline.prediction(2).formula == "(p-1)/(m+p-1)");
  REQUIRE(timeline.ranks().size() == 2);
  const RankTimeline& rank = *timeline.ranks()[0];
  CHECK(rank.name == "rank zero");
  CHECK(rank.clock_offset_ns == 123456789012);
  CHECK(rank.ended);
  CHECK(rank.spans_written == 3);
  CHECK(rank.spans == 3);
  REQUIRE(rank.counters.size() == 1);
  const CounterSample& counter = rank.counters.front();
  CHECK(counter.at == 21'000'000);
  CHECK(timeline.name(counter.name) == "tokens per expert");
  CHECK(counter.step == 2);
  CHECK(counter.layer == 4);
  REQUIRE(counter.series.size() == 2);
  CHECK(timeline.name(counter.series[1].first) == "expert 1");
  CHECK(counter.series[1].second == 7);
  REQUIRE(rank.lanes.size() == 2);
  CHECK(rank.lanes[1]->name() == "send activations → 1");
  const TimelineSpan& forward = rank.lanes[0]->rows(Band::action).front().front();
  CHECK(forward.start == 12'345'678);
  CHECK(forward.end == 15'345'678);
  CHECK(timeline.name(forward.name) == "PP:0F3");
  CHECK(forward.category == Category::forward);
  CHECK(forward.step == 2);
  CHECK(forward.stage == 0);
  CHECK(forward.microbatch == 3);
  CHECK(forward.bytes == -1);
  const TimelineSpan& send = rank.lanes[1]->rows(Band::action).front().front();
  CHECK(send.duration() == 500'000);
  CHECK(send.bytes == 16384);
  CHECK(send.peer == 1);
  CHECK(timeline.name(send.group) == "pp");
  CHECK(timeline.name(send.algorithm) == "ring");
  CHECK(send.sequence == 7);
  CHECK(rank.memory.front().bytes == std::array<std::int64_t, 5>{1, 1, 2, 3, 4});
  CHECK(timeline.ranks()[1]->losses.front().loss == doctest::Approx(5.545));
  REQUIRE(timeline.messages().size() == 1);
  CHECK(timeline.messages()[0].from_lane == 1);
  CHECK(timeline.messages()[0].to_rank == 1);
  CHECK(timeline.messages()[0].received == 16'100'000);
  REQUIRE(timeline.ranks()[1]->compute());
  REQUIRE(timeline.ranks()[1]->compute()->open().size() == 1);
  const AnnouncedSpan& open = timeline.ranks()[1]->compute()->open().front();
  CHECK(open.span.start == 40'500'000);
  CHECK(timeline.name(open.span.name) == "receive");
  CHECK(timeline.end() == 150'000'000);  // the span was still open at this time
  REQUIRE(timeline.find_step(2));
  CHECK(timeline.find_step(2)->ranks_done == 1);
  CHECK_FALSE(timeline.step_complete(*timeline.find_step(2)));
  CHECK_FALSE(timeline.ended());
}

std::filesystem::path temporary(const std::string& name, const std::string& text) {
  const auto path = std::filesystem::temp_directory_path() /
                    ("lockstep_reader_" + std::to_string(std::random_device{}()) + name);
  std::ofstream(path) << text;
  return path;
}

}  // namespace

TEST_CASE("microseconds become picoseconds exactly") {
  CHECK(parse_microseconds("12.345678") == 12'345'678);
  CHECK(parse_microseconds("0.000001") == 1);
  CHECK(parse_microseconds("7") == 7'000'000);
  CHECK(parse_microseconds("3.000 ") == 3'000'000);
  CHECK(parse_microseconds("-1.5") == -1'500'000);
  CHECK(parse_microseconds("9007199254740.993001") == 9'007'199'254'740'993'001);  // beyond 2^53
  CHECK(parse_microseconds("0.0000004") == 0);
  CHECK(parse_microseconds("0.0000005") == 1);
  CHECK(parse_microseconds("1.5e3") == 1'500'000'000);
  CHECK(parse_microseconds("1699999999999999.123", 1699999999999000) == 999'123'000);
  for (const char* wrong : {"", "x", "-", ".5", "1.2.3", "1e", "99999999999999999999", "1e300"}) {
    CAPTURE(wrong);
    CHECK_FALSE(parse_microseconds(wrong));
  }
}

TEST_CASE("every kind of event is understood") {
  Timeline timeline;
  TraceReader reader{timeline};
  reader.feed(sample);
  reader.finish();
  timeline.settle();
  CHECK(reader.lines() == 14);
  CHECK(reader.malformed() == 0);
  CHECK(reader.bytes() == static_cast<std::int64_t>(sample.size()));
  check_sample(timeline);
}

TEST_CASE("a run of several phases predicts each, and may use a message's id again") {
  Timeline timeline;
  TraceReader reader{timeline};
  const std::string flow =
      R"({"ph":"%","name":"message","cat":"communication","id":5,"pid":0,"tid":1,"ts":)";
  const auto end_of = [&](char phase, const char* time) {
    std::string line = flow + time + "},\n";
    line[line.find('%')] = phase;
    return line;
  };
  reader.feed(sample);
  reader.feed(R"x({"ph":"M","name":"predicted","pid":0,"tid":0,"args":{"bubble":0.5,)x"
              R"x("bubble_simulated":0.6,"formula":"half","phase":"GPipe","first_step":7}},)x"
              "\n");
  reader.feed(end_of('s', "200") + end_of('s', "300") + end_of('f', "210") + end_of('f', "310"));
  reader.finish();
  timeline.settle();
  CHECK(reader.malformed() == 0);
  CHECK(timeline.prediction(6).bubble == doctest::Approx(0.272727));
  CHECK(timeline.prediction(7).bubble == doctest::Approx(0.5));
  CHECK(timeline.prediction(9).bubble_simulated == doctest::Approx(0.6));
  CHECK(timeline.prediction(9).phase == "GPipe");
  REQUIRE(timeline.messages().size() == 3);
  CHECK(timeline.messages()[1].received == 210'000'000);
  CHECK(timeline.messages()[2].sent == 300'000'000);
}

TEST_CASE("the hello may describe the cluster") {
  Timeline timeline;
  TraceReader reader{timeline};
  reader.feed(
      hello_line({.cluster = "mine", .cluster_description = R"({"name": "mine", "a": [1]})"}));
  reader.finish();
  CHECK(reader.malformed() == 0);
  CHECK(timeline.run().cluster == "mine");
  CHECK(timeline.run().cluster_description == R"({"name":"mine","a":[1]})");
}

TEST_CASE("the hello lists the configuration, each value as text") {
  const auto read = [](const std::string& config) {
    Timeline timeline;
    TraceReader reader{timeline};
    reader.feed(hello_line({.clock = "wall", .config = config}));
    reader.finish();
    CHECK(reader.malformed() == 0);
    CHECK(timeline.run().clock == "wall");
    return timeline.run().config;
  };
  using Config = std::vector<std::pair<std::string, std::string>>;
  CHECK(read("{}").empty());
  CHECK(read(R"({"layers": 8, "learning_rate": 0.001, "tied": false, "microbatches": [1, 2],)"
             R"( "--overlap": "a \"b\""})") == Config{{"layers", "8"},
                                                      {"learning_rate", "0.001"},
                                                      {"tied", "false"},
                                                      {"microbatches", "[1,2]"},
                                                      {"--overlap", "a \"b\""}});
  std::string many = "{";
  for (int i = 0; i < 200; ++i) many += (i > 0 ? ",\"" : "\"") + std::to_string(i) + "\":1";
  CHECK(read(many + "}").size() == 64);
  CHECK(read("{\"a\":\"" + std::string(1000, 'x') + "\",\"b\":2}") == Config{{"b", "2"}});
}

TEST_CASE("numbers that no run writes are left out or cut off") {
  Timeline timeline;
  TraceReader reader{timeline};
  const auto feed = [&](const std::string& times, const std::string& args) {
    reader.feed(R"({"ph":"X","name":"a","pid":0,"tid":0,)" + times + R"(,"args":{)" + args +
                "}},\n");
  };
  feed(R"("ts":1,"dur":1)", R"("layer":70000,"bytes":9223372036854775807,"step":9e18)");
  const std::string far = R"("ts":3999999999999.999999,"dur":)";
  feed(far + "0", "");
  CHECK(reader.malformed() == 0);
  feed(far + "1", "");  // ends after the latest time
  feed(R"("ts":-1000000000001,"dur":1)", "");
  feed(R"("ts":1,"dur":4000000000001)", "");
  feed(R"("ts":-9000000000000000000,"dur":1)", "");
  CHECK(reader.malformed() == 4);
  reader.feed(R"({"ph":"C","name":"memory","pid":0,"ts":1,"args":{"parameters":8e18,)"
              R"("gradients":8e18,"optimizer":-5}})"
              "\n");
  timeline.settle();
  const TimelineSpan& span = timeline.ranks()[0]->lanes[0]->rows(Band::kernel).front().front();
  CHECK(span.layer == -1);
  CHECK(span.bytes == most_bytes);
  CHECK(span.step == -1);
  CHECK(timeline.ranks()[0]->memory_peak->total() == 2 * most_bytes);
}

TEST_CASE("the order of a trace's lines does not matter") {
  std::vector<std::string> lines;
  for (int i = 0; i < 60'000; ++i) {
    const int lane = i % 3, start = i * 7919 % 60'000;
    lines.push_back(R"({"ph":"X","name":"PP:0F1","pid":)" + std::to_string(i % 2) + R"(,"tid":)" +
                    std::to_string(lane) + R"(,"ts":)" + std::to_string(start) + R"(,"dur":)" +
                    std::to_string(1 + i % 97 * (i % 11)) + R"(,"args":{"step":)" +
                    std::to_string(start / 1000) + "}},\n");
  }
  const auto rows_of = [](const std::vector<std::string>& in_order) {
    Timeline timeline;
    TraceReader reader{timeline};
    for (const std::string& line : in_order) reader.feed(line);
    reader.finish();
    timeline.settle();
    std::vector<std::tuple<int, int, std::size_t, Picoseconds, Picoseconds>> spans;
    for (const auto& rank : timeline.ranks())
      for (const auto& lane : rank->lanes)
        for (std::size_t row = 0; row < lane->rows(Band::action).size(); ++row)
          for (const TimelineSpan& span : lane->rows(Band::action)[row])
            spans.emplace_back(rank->rank, lane->tid(), row, span.start, span.end);
    std::vector<int> steps;
    for (const StepWindow& step : timeline.steps()) steps.push_back(step.step);
    CHECK(steps.size() == 60);
    CHECK(std::ranges::is_sorted(steps));
    return spans;
  };
  const auto expected = rows_of(lines);
  CHECK(expected.size() == 60'000);
  std::mt19937 random{3};
  std::ranges::shuffle(lines, random);
  CHECK(rows_of(lines) == expected);
  std::ranges::reverse(lines);
  CHECK(rows_of(lines) == expected);
}

TEST_CASE("input may arrive in any pieces") {
  std::mt19937 random{11};
  for (int round = 0; round < 50; ++round) {
    Timeline timeline;
    TraceReader reader{timeline};
    for (std::size_t at = 0; at < sample.size();) {
      const auto piece =
          std::uniform_int_distribution<std::size_t>(1, round < 25 ? 9 : 400)(random);
      reader.feed(std::string_view{sample}.substr(at, piece));
      at += piece;
    }
    reader.finish();
    timeline.settle();
    check_sample(timeline);
  }
}

TEST_CASE("a closing bracket, missing last newline or comma, and CRLF do not matter") {
  for (std::string text : {sample + "]\n", sample.substr(0, sample.size() - 1),
                           sample.substr(0, sample.size() - 2), sample.substr(2)}) {
    Timeline timeline;
    TraceReader reader{timeline};
    reader.feed(text);
    reader.finish();
    timeline.settle();
    CHECK(reader.malformed() == 0);
    check_sample(timeline);
  }
}

TEST_CASE("malformed lines are skipped, counted and reported") {
  Timeline timeline;
  TraceReader reader{timeline};
  reader.feed("[\n{\"ph\":\"X\",\"name\":\"a\",\"pid\":0,\"tid\":0,\"ts\":1,\"dur\":1},\n");
  for (const char* wrong :
       {"{\"ph\":\"X\",\"name\":\"cut off", "nonsense", "{}", "{\"ph\":\"X\",\"name\":\"no time\"}",
        "{\"ph\":\"X\",\"ts\":\"soon\",\"dur\":1,\"pid\":0,\"tid\":0},",
        "{\"ph\":\"X\",\"ts\":1,\"dur\":-1}", "\x01\xff\xfe", "[[[[",
        "{\"ph\":\"X\",\"ts\":1e99,\"dur\":1},"}) {
    reader.feed(std::string{wrong} + "\n");
  }
  reader.feed("{\"ph\":\"X\",\"name\":\"b\",\"pid\":0,\"tid\":0,\"ts\":5,\"dur\":1},\n");
  reader.finish();
  timeline.settle();
  CHECK(reader.malformed() == 9);
  CHECK(reader.lines() == 2);
  CHECK(timeline.span_count() == 2);
  CHECK(reader.first_malformed().starts_with("line 3: "));
  CHECK(reader.first_malformed().find("cut off") != std::string::npos);
}

TEST_CASE(
    "the first skipped line is quoted without what a terminal would obey, and not at length") {
  const auto first_malformed = [](const std::string& line) {
    Timeline timeline;
    TraceReader reader{timeline, TraceReader::Form::lines};
    reader.feed(line + "\n");
    return reader.first_malformed();
  };
  const std::string escapes = first_malformed("{\x1b[2J\x1b]0;title\a\r\x9b");
  CHECK(escapes.ends_with("{\\x1b[2J\\x1b]0;title\\x07\\x0d\\x9b"));
  CHECK(first_malformed(std::string(1000, '\x1b')).ends_with("\\x1b... (1000 bytes)"));
}

TEST_CASE("a file whose first line is broken is still read line by line") {
  Timeline timeline;
  TraceReader reader{timeline};
  reader.feed(
      "{\"ph\":\"X\",\"na\n{\"ph\":\"X\",\"name\":\"b\",\"pid\":0,\"tid\":0,\"ts\":5,\"dur\":1},"
      "\n");
  reader.finish();
  CHECK(reader.malformed() == 1);
  CHECK(timeline.span_count() == 1);
}

TEST_CASE("on the wire every line is parsed from the first") {
  Timeline timeline;
  TraceReader reader{timeline, TraceReader::Form::lines};
  reader.feed("broken\n{\"ph\":\"X\",\"name\":\"b\",\"pid\":0,\"tid\":0,\"ts\":5,\"dur\":1},\n");
  CHECK(reader.malformed() == 1);
  CHECK(timeline.span_count() == 1);
}

TEST_CASE("a document of many lines, as PyTorch writes, opens") {
  const std::string document = R"({
  "schemaVersion": 1,
  "distributedInfo": {"backend": "nccl", "rank": 3, "world_size": 4},
  "traceEvents": [
  {
    "ph": "X", "cat": "kernel", "name": "ncclKernel_AllReduce", "pid": 0, "tid": 7,
    "ts": 1699999999999999.5, "dur": 10.25,
    "args": {"External id": 1, "stream": 7, "grid": [1, 1, 1]}
  },
  {
    "ph": "X", "cat": "user_annotation", "name": "PP:1B4", "pid": "python 12", "tid": "thread x",
    "ts": 1699999999999990, "dur": 2
  },
  {"ph": "i", "s": "g", "name": "Iteration Start", "pid": "Traces", "tid": "Trace", "ts": 1699999999999995}
  ],
  "traceName": "x.json"
})";
  Timeline timeline;
  TraceReader reader{timeline};
  reader.feed(document);
  reader.finish();
  timeline.settle();
  CHECK(reader.malformed() == 0);
  CHECK(timeline.span_count() == 2);
  CHECK(timeline.end() - timeline.start() == 19'750'000);
  const auto& row = timeline.find_rank(0)->lanes.front()->rows(Band::action).front();
  CHECK(row.front().category == Category::communication);

  // An invalid event does not stop the reader, and a document may be a single line.
  Timeline one_line;
  TraceReader short_reader{one_line};
  short_reader.feed(R"x({"traceEvents":[{"ph":"X","name":"a","pid":0,"tid":0,"ts":1,"dur":1},)x"
                    R"x({"ph":"X","name":"no time","pid":0,"tid":0},3,)x"
                    R"x({"ph":"X","name":"b","pid":0,"tid":0,"ts":2,"dur":1}]})x");
  short_reader.finish();
  CHECK(one_line.span_count() == 2);
  CHECK(short_reader.malformed() == 2);

  Timeline pretty;
  TraceReader array{pretty};
  array.feed(
      "[\n  {\n    \"ph\": \"X\", \"name\": \"a\", \"pid\": 0, \"tid\": 0, \"ts\": 1, \"dur\": 1\n "
      " }\n]\n");
  array.finish();
  CHECK(pretty.span_count() == 1);
}

TEST_CASE("no input crashes the reader") {
  std::mt19937 random{5};
  for (int round = 0; round < 3000; ++round) {
    std::string text = sample;
    const int changes = std::uniform_int_distribution<int>(1, 6)(random);
    for (int i = 0; i < changes && !text.empty(); ++i) {
      const auto at = std::uniform_int_distribution<std::size_t>(0, text.size() - 1)(random);
      switch (random() % 3) {
        case 0:
          text[at] = static_cast<char>(random());
          break;
        case 1:
          text.erase(at, random() % 40);
          break;
        default:
          text.resize(at + 1);
      }
    }
    Timeline timeline;
    TraceReader reader{timeline};
    reader.feed(text);
    reader.finish();
    timeline.settle();
  }
}

TEST_CASE("files read in parallel are joined as if one had followed the other") {
  const testing::TemporaryFolder folder;
  const auto half = sample.find("\n", sample.size() / 2) + 1;
  const auto first = folder.file("a.json", sample.substr(0, half));
  const auto second = folder.file("b.json", "[\n" + sample.substr(half));
  Timeline timeline;
  CHECK(read_traces({first, second}, timeline).files == 2);
  check_sample(timeline);
  Timeline none;
  CHECK_THROWS_AS(read_traces({first, folder.path() / "missing"}, none), UsageError);
}

TEST_CASE("a folder stands for its merged trace, or for its ranks") {
  namespace fs = std::filesystem;
  const fs::path folder = temporary("run", "");
  fs::remove(folder);
  fs::create_directory(folder);
  CHECK_THROWS_AS(trace_files(folder), UsageError);
  CHECK_THROWS_AS(trace_files(folder / "missing"), UsageError);
  std::ofstream(folder / "rank1.json") << sample;
  std::ofstream(folder / "rank0.json") << sample << "oops\n";
  std::ofstream(folder / "report.json") << "{}";
  REQUIRE(trace_files(folder).size() == 2);
  CHECK(trace_files(folder)[0].filename() == "rank0.json");
  Timeline timeline;
  const ReadReport report = read_traces({folder}, timeline);
  CHECK(report.files == 2);
  CHECK(report.malformed == 1);
  CHECK(report.first_malformed.starts_with("rank0.json, line 17"));
  std::ofstream(folder / "trace.json") << sample;
  CHECK(trace_files(folder).front().filename() == "trace.json");
  fs::remove_all(folder);
}

TEST_CASE("what a rank says about its slices is kept as text, the latest last") {
  const auto line = [](int rank, const std::string& args) {
    return R"({"ph":"M","name":"slices","pid":)" + std::to_string(rank) + R"(,"tid":0,"args":)" +
           args + "},\n";
  };
  Timeline timeline;
  TraceReader reader{timeline};
  reader.feed("[\n" + line(0, R"({"tensors":[1]})") + line(1, R"({"tensors":[2, {}]})") +
              line(0, R"({"tensors":[3]})") + line(2, "7"));
  reader.finish();
  CHECK(timeline.find_rank(0)->slices == R"({"tensors":[3]})");
  CHECK(timeline.find_rank(1)->slices == R"({"tensors":[2, {}]})");
  CHECK(timeline.find_rank(2)->slices.empty());
  // The parts of a trace may be read separately.
  Timeline later;
  TraceReader of_later{later};
  of_later.feed(line(1, R"({"tensors":[]})"));
  of_later.finish();
  timeline.absorb(std::move(later));
  CHECK(timeline.find_rank(0)->slices == R"({"tensors":[3]})");
  CHECK(timeline.find_rank(1)->slices == R"({"tensors":[]})");
  // Too long for any run.
  Timeline endless;
  TraceReader of_endless{endless};
  of_endless.feed(line(0, R"({"tensors":[")" + std::string(1 << 18, 'x') + R"("]})"));
  of_endless.finish();
  CHECK((!endless.find_rank(0) || endless.find_rank(0)->slices.empty()));
}
