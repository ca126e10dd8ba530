#include <doctest/doctest.h>

#include <fstream>

#include "viz/data/step/advice.h"

using namespace lockstep::viz;

namespace {

constexpr const char* report = R"({"format":1,"run":"r1","losses":[1.5,null],"counterfactuals":
  {"step":7,"seconds":0.5,"all":[{"claim":"free_axis","change":"tp=free","text":"With tp free, ...",
  "values":{"step":0.5}},{"claim":"no_latency","text":"With no latency, ..."}]}})";

}  // namespace

TEST_CASE("the advice of a report: the step and its sentences, in order") {
  const Advice advice = parse_advice(report);
  CHECK(advice.run == "r1");
  CHECK(advice.step == 7);
  CHECK(advice.sentences == std::vector<std::string>{"With tp free, ...", "With no latency, ..."});
}

TEST_CASE("a report without advice, and what is no report") {
  CHECK(parse_advice(R"({"run":"r1"})").step == -1);
  for (const char* text : {"", "[]", "{", R"({"counterfactuals":{"all":[]}})",
                           R"({"counterfactuals":{"step":-3,"all":[]}})",
                           R"({"counterfactuals":{"step":1,"all":[{"claim":"x"}]}})"})
    CHECK(parse_advice(text).step == -1);
}

TEST_CASE("a sentence from a hostile report is printable, bounded, and not one of too many") {
  std::string many = R"({"counterfactuals":{"step":1,"all":[)";
  for (int i = 0; i < 1000; ++i)
    many += (i > 0 ? "," : "") + (R"({"text":"\u001b[2J)" + std::string(9000, 'x') + R"("})");
  const Advice advice = parse_advice(many + "]}}");
  CHECK(advice.sentences.size() == 64);
  for (const std::string& each : advice.sentences) {
    CHECK(each.size() < 1000);
    CHECK(each.find('\033') == std::string::npos);
  }
}

TEST_CASE("only the report of the same run counts") {
  const auto folder = std::filesystem::temp_directory_path() / "lockstep_advice";
  std::filesystem::create_directories(folder);
  std::ofstream{folder / "report.json"} << report;
  CHECK(find_advice({folder / "rank0.json"}, "r1").step == 7);
  CHECK(find_advice({folder}, "r1").step == 7);
  CHECK(find_advice({folder}, "r2").step == -1);
  std::filesystem::remove_all(folder);
  CHECK(find_advice({folder}, "r1").step == -1);
}
