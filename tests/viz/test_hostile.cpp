// Tests traces that no run writes: mutated traces, and traces with an extreme value in a field. The
// viewer must open and draw each of them. With LOCKSTEP_HOSTILE=all in the environment, there are
// thousands of traces (the slow test, intended for the sanitizers); otherwise there are a hundred.
#include <doctest/doctest.h>
#include <fmt/format.h>

#include <cstdlib>
#include <random>
#include <string>
#include <vector>

#include "tests/viz/headless.h"
#include "tests/viz/sample_run.h"

using namespace lockstep;

namespace {

bool all_of_them() {
  const char* which = std::getenv("LOCKSTEP_HOSTILE");
  return which != nullptr && std::string_view{which} == "all";
}

/// A small trace with every kind of event.
std::string sample_trace() {
  std::string text;
  for (const std::string& rank : sample_traces(sample_1f1b(2, 3, 3))) text += rank;
  // A ring of two ranks.
  for (const int rank : {0, 1})
    for (const bool sends : {true, false})
      text += fmt::format(
          R"({{"ph":"X","name":"all_gather","cat":"communication","pid":{},"tid":{},"ts":{},"dur":4,"args":{{"step":1,"bytes":8,"peer":{},"group":"dp","group_size":2,"algorithm":"ring","seq":1}}}},
{{"ph":"{}","name":"message","cat":"communication","id":{},"pid":{},"tid":{},"ts":{}}},
)",
          rank, sends ? 8 : 9, sends ? 1500 : 1501, 1 - rank, sends ? "s" : "f",
          9000 + (sends ? rank : 1 - rank), rank, sends ? 8 : 9, sends ? 1500 : 1505);
  for (const int rank : {0, 1})
    text += fmt::format(
        R"({{"ph":"M","name":"slices","pid":{},"args":{{"tensors":[{{"name":"h.*.w","blocks":[[0,2]],"shape":[2,4,6],"boxes":[[0,0,{},2,4,3]],"bytes":{{"parameters":4,"optimizer":8}}}}]}}}},
)",
        rank, 3 * rank);
  return text + R"({"ph":"M","name":"predicted","pid":0,"args":{"bubble":0.2,"first_step":1}},
{"ph":"i","s":"t","name":"open","cat":"wait","pid":0,"tid":1,"ts":900,"args":{"name":"recv","start":700}},
{"ph":"i","s":"t","name":"withdrawn","cat":"wait","pid":1,"tid":0,"ts":900,"args":{"name":"recv","start":700}},
{"ph":"X","name":"gemm","cat":"kernel","pid":0,"tid":0,"ts":100.5,"dur":20,"args":{"layer":3}},
)";
}

/// One event of each kind. Each `%` is a place for a value; the text in brackets after it is the
/// default.
const std::vector<std::string>& templates() {
  static const std::vector<std::string> all = {
      R"({"ph":%["X"],"name":%["PP:1F2"],"cat":%["forward"],"pid":%[0],"tid":%[0],"ts":%[5],"dur":%[7],"args":%[{}]},)",
      R"({"ph":"X","name":"PP:0B1","cat":"backward","pid":0,"tid":0,"ts":5,"dur":7,"args":{"step":%[1],"stage":%[0],"microbatch":%[1],"layer":%[2],"bytes":%[9],"peer":%[1],"group":%["dp"],"group_size":%[2],"algorithm":%["ring"],"seq":%[4]}},)",
      R"({"ph":"X","name":"send","cat":"communication","pid":1,"tid":2,"ts":5,"dur":7,"args":{"step":%[1],"stage":%[0],"microbatch":%[1],"bytes":%[9],"peer":%[1]}},)",
      R"({"ph":"X","name":"step","cat":"step","pid":%[0],"tid":0,"ts":%[0],"dur":%[9000],"args":{"step":%[7]}},)",
      R"({"ph":"s","name":"message","cat":"communication","id":%[77],"pid":%[0],"tid":%[1],"ts":%[3]},)"
      "\n"
      R"({"ph":"f","name":"message","cat":"communication","id":77,"pid":%[1],"tid":%[2],"ts":%[9]},)",
      R"({"ph":"C","name":"memory","pid":%[0],"ts":%[3],"args":{"parameters":%[1],"gradients":%[1],"optimizer":%[1],"activations":%[1],"communication":%[1]}},)",
      R"({"ph":"M","name":"memory state","pid":%[0],"args":{"state":%[0],"parts":[[%["activations"],%["qkv"],%[0]],["gradients","head",-1]],"bytes":[%[0],%[50],1,%[9]]}},)"
      "\n"
      R"({"ph":"C","name":"memory","pid":0,"ts":%[3],"state":%[0],"args":{"gradients":9,"activations":50}},)"
      "\n"
      R"({"ph":"M","name":"memory at peak","pid":%[0],"args":{"step":%[0],"state":%[0]}},)",
      R"({"ph":"M","name":"memory state","pid":0,"args":{"state":0,"parts":%[0],"bytes":%[0]}},)",
      R"({"ph":"C","name":"loss","pid":%[0],"ts":%[3],"args":{"loss":%[5.5]}},)",
      R"({"ph":"C","name":"tokens per expert","id":%["layer 1"],"pid":%[0],"ts":%[3],"args":{"step":%[0],"layer":%[1],"expert 0":%[5],"expert 1":%[9],"expert 1 dropped":%[3]}},)",
      R"({"ph":"X","name":"all_reduce","cat":"communication","pid":0,"tid":1,"ts":%[5],"dur":%[7],"args":{"step":%[0],"bytes":%[9],"group":%["dp"],"seq":%[4]}},)"
      "\n"
      R"({"ph":"X","name":"all_reduce","cat":"wait","pid":0,"tid":0,"ts":%[6],"dur":%[7],"args":{"step":%[0],"group":%["dp"],"seq":%[4]}},)",
      R"({"ph":"i","name":"end","s":"p","pid":%[0],"ts":%[3],"args":{"spans":%[10]}},)",
      R"({"ph":"i","s":"t","name":"open","cat":"wait","pid":%[0],"tid":%[0],"ts":%[900],"args":{"name":%["x"],"start":%[7],"step":%[1]}},)",
      R"({"ph":"i","s":"t","name":"withdrawn","cat":"wait","pid":0,"tid":0,"ts":%[900],"args":{"name":%["x"],"start":%[7]}},)",
      R"({"ph":"M","name":"lockstep","pid":%[0],"tid":%[0],"args":{"format":%[1],"run":%["r"],"lesson":%["l"],"rank":%[0],"ranks":%[2],"mesh":%[{"pp":2}],"device":%["cpu"],"launch":%["threads"],"clock":%["modelled"],"cluster":%["classroom"],"cluster_description":%[{}],"config":%[{"layers":1}],"clock_offset_ns":%[5],"clock_uncertainty_ns":%[6],"predicted":%[{}]}},)",
      R"({"ph":"M","name":"lockstep","pid":0,"tid":0,"args":{"run":"r","clock":"modelled","cluster":"c","cluster_description":{"name":"c","nodes":%[1],"ranks_per_node":%[8],"flops":%[1e12],"memory_bandwidth":%[1e12],"launch_seconds":%[1e-6],"within":{"latency_seconds":%[1e-6],"bandwidth":%[1e10]},"between":{"latency_seconds":%[1e-6],"bandwidth":%[1e10]}}}},)",
      R"({"ph":"M","name":"predicted","pid":0,"args":{"bubble":%[0.3],"bubble_simulated":%[0.3],"first_step":%[0],"phase":%["p"],"formula":%["f"],"schedule":%["1f1b"],"stages":%[2],"microbatches":%[3]}},)",
      R"({"ph":"M","name":"slices","pid":%[0],"args":{"tensors":[{"name":%["h.*.w"],"blocks":[[%[0],%[2]]],"shape":[%[4],%[6]],"boxes":[[%[0],%[0],%[4],%[3]]],"bytes":{"parameters":%[4],"optimizer":%[8]}}],"omitted":%[0]}},)",
      R"({"ph":"M","name":"slices","pid":0,"args":%[7]},)",
      R"({"ph":"X","name":%["all_gather"],"cat":"communication","pid":%[0],"tid":8,"ts":%[1500],"dur":%[4],"args":{"step":%[1],"bytes":%[8],"peer":%[1],"group":"dp","algorithm":"ring","seq":%[1]}},)",
      R"({"ph":"M","name":"process_name","pid":%[0],"args":{"name":%["rank"]}},)",
      R"({"ph":"M","name":"thread_name","pid":%[0],"tid":%[0],"args":{"name":%["lane"]}},)"};
  return all;
}

std::string repeated(std::string_view text, std::size_t times) {
  std::string all;
  for (std::size_t i = 0; i < times; ++i) all += text;
  return all;
}

const std::vector<std::string>& extremes() {
  static const std::vector<std::string> all = {
      "0",
      "-1",
      "-0",
      "2147483647",
      "-2147483648",
      "2147483648",
      "4294967296",
      "2000000",
      "9223372036854775807",
      "-9223372036854775808",
      "18446744073709551615",
      "99999999999999999999999",
      "1e12",
      "1e15",
      "2e12",
      "1999999999999.999999",
      "-1999999999999",
      "1e17",
      "1e18",
      "9e18",
      "1e308",
      "-1e308",
      "1e309",
      "1e-308",
      "0.0000001",
      "NaN",
      "Infinity",
      "null",
      "true",
      "[]",
      "{}",
      "\"\"",
      "\"-5\"",
      "\"99999999999999999999\"",
      "\"\\u0000\"",
      "\"\\ud800\"",
      std::string("\"a\0b\"", 5),
      "\"\xff\xfe\"",
      "\"%s%n%d\"",
      "\"/proc/self/mem\"",
      "\"\\u202e\xe2\x86\x92\"",
      "\"" + repeated("long ", 20000) + "\"",
      "\"" + repeated("\xe2\x86\x92", 9000) + "\"",
      repeated("[", 3000) + repeated("]", 3000),
      repeated("{\"a\":", 1500) + "1" + repeated("}", 1500),
      "{\"a\":" + repeated("[1,2,", 700) + "0" + repeated("]", 700) + "}"};
  return all;
}

/// Fills in the template: place `chosen` with `value`, the other places with their defaults.
/// Returns "" if place `chosen` does not exist.
std::string filled(const std::string& pattern, int chosen, const std::string& value) {
  std::string line;
  int place = 0;
  for (std::size_t i = 0; i < pattern.size(); ++i) {
    if (pattern[i] != '%') {
      line += pattern[i];
      continue;
    }
    const std::size_t end = pattern.find(']', i);
    line += place++ == chosen ? value : pattern.substr(i + 2, end - i - 2);
    i = end;
  }
  return chosen < place ? line : "";
}

std::vector<std::string> crafted_lines() {
  std::vector<std::string> lines;
  for (const std::string& pattern : templates())
    for (int place = 0; !filled(pattern, place, "0").empty(); ++place)
      for (const std::string& value : extremes()) lines.push_back(filled(pattern, place, value));
  return lines;
}

std::string mutated(std::string text, std::mt19937& random) {
  const auto below = [&](std::size_t count) {
    return std::uniform_int_distribution<std::size_t>(0, count - 1)(random);
  };
  const std::size_t changes = 1 + below(12);
  for (std::size_t i = 0; i < changes && text.size() > 2; ++i) {
    const std::size_t at = below(text.size());
    switch (below(7)) {
      case 0:
        text[at] = static_cast<char>(random());
        break;
      case 1:
        text.erase(at, below(60));
        break;
      case 2:
        text.resize(std::max<std::size_t>(at, text.size() / 2));
        break;
      case 3:  // a digit, so that the line often stays valid
        if (const auto digit = text.find_first_of("0123456789", at); digit != std::string::npos)
          text[digit] = static_cast<char>('0' + below(10));
        break;
      case 4:
        if (const auto digit = text.find_first_of("0123456789", at); digit != std::string::npos)
          text.insert(digit, extremes()[below(26)]);
        break;
      case 5:  // a number
        if (const auto colon = text.find(':', at); colon != std::string::npos) {
          const auto end = text.find_first_of(",}", colon);
          if (end != std::string::npos)
            text.replace(colon + 1, end - colon - 1, extremes()[below(extremes().size())]);
        }
        break;
      default: {  // a copy of some lines, in another place
        const auto begin = text.find('\n', at);
        const auto end = begin == std::string::npos ? begin : text.find('\n', begin + 1);
        if (end != std::string::npos) text.insert(0, text.substr(begin + 1, end - begin));
      }
    }
  }
  return text;
}

}  // namespace

TEST_CASE("the viewer opens and draws mutated traces") {
  Headless viewer;
  std::mt19937 random{17};
  const std::string sample = sample_trace();
  REQUIRE(viewer.open(sample));
  const int count = all_of_them() ? 5000 : 50;
  int opened = 0;
  for (int i = 0; i < count; ++i) opened += viewer.open(mutated(sample, random));
  CHECK(opened > count / 2);
  CHECK(viewer.longest_frame < 1);
  if (all_of_them())
    MESSAGE(count, " mutated traces, longest frame ", viewer.longest_frame, " s of computing");
}

TEST_CASE("the viewer opens and draws traces with a field at its extremes") {
  Headless viewer;
  const std::string sample = sample_trace();
  std::vector<std::string> lines = crafted_lines();
  std::mt19937 random{29};
  std::shuffle(lines.begin(), lines.end(), random);
  if (!all_of_them()) lines.resize(50);
  for (const std::string& line : lines) {
    CAPTURE(line.substr(0, 300));
    CHECK(viewer.open(sample + line + "\n"));
    CHECK(viewer.open("[\n" + line + "\n" + sample));
    CHECK(viewer.longest_frame < 1);
  }
  if (all_of_them())
    MESSAGE(lines.size(), " crafted traces, longest frame ", viewer.longest_frame,
            " s of computing");
}
