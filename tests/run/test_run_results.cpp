#include <doctest/doctest.h>

#include <fstream>
#include <limits>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "core/run/results/run_results.h"
#include "tests/support/complaints.h"
#include "tests/support/temporary_folder.h"

using namespace lockstep;
using namespace lockstep::testing;

namespace {

RunResults some_results() {
  RunResults run{.run = "r", .lesson = "09 1F1B", .facts = R"({"ranks":2,"config":{"seed":1}})"};
  run.steps = 5;
  run.modelled = true;
  run.step_tokens = 1024;
  run.stages = 4;
  run.pipeline = {0, 1};
  run.first_microbatches = {4, 8};
  run.proposals = {SplitProposal{.split = {2, 2}, .step = 50, .better = {3, 1}, .block = 7}, {}};
  for (int rank = 0; rank < 2; ++rank) {
    run.ranks.push_back({.rank = rank, .host = "h", .train_seconds = 2.5});
    run.ranks.back().phases.push_back({.phase = {"m = 4", 0, 2, 4, {}}, .last_step = 70 + rank});
    run.ranks.back().phases.push_back({.phase = {"m = 8", 2, 3, 8, {0}}, .last_step = 90 - rank});
    run.ranks.back().phases[1].predicted.bubble = 1.0 / 3;
    run.ranks.back().phases[1].predicted.peak_bytes[MemoryCategory::gradients] = 12;
  }
  run.losses = {3, 2.5, 0.1, 2, 1.0 / 3};
  run.reference_losses = {3, 2.5, 0.1, 2, 1.0 / 3};
  run.parity = Parity{.max_relative_loss = 1e-9,
                      .worst_parameter = "w",
                      .final_loss = std::numeric_limits<double>::infinity()};
  run.tolerance = {.loss = 1e-6, .parameter = 1e-5};
  run.same_in_order = true;
  run.difference = "two choices differ";
  run.dtype = "bf16";
  run.reference_dtype = "f32";
  run.sample = "a sample";
  run.own["routing"] = R"({"tie":1e-06})";
  return run;
}

std::string refusal(const std::string& file, const std::string& text,
                    const std::vector<std::string>& words) {
  std::ofstream{file, std::ios::binary} << text;
  return unlike(complaint_of<UsageError>([&] { read_results(file); }), words);
}

}  // namespace

TEST_CASE("results.json holds all that a run knows: read and written again, it is the same text") {
  const TemporaryFolder folder;
  const std::string file = folder.file("results.json", text_of(some_results()));
  const RunResults read = read_results(file);
  CHECK(text_of(read) == text_of(some_results()));
  CHECK(read.step_time(0) == 71);
  CHECK(read.step_time(1) == 90);
  CHECK(read.step_seconds() == 0.5);
  CHECK(read.proposals[0]->better == std::vector{3, 1});
  CHECK_FALSE(read.proposals[1]);
  // JSON has no infinity.
  auto ours = nlohmann::json::parse(report_json(some_results()));
  auto theirs = nlohmann::json::parse(report_json(read));
  CHECK(theirs["parity"]["final_loss"].is_null());
  CHECK(ours == theirs);
  CHECK(ours["config"]["seed"] == 1);
  CHECK(ours["tokens_per_second"] == 2048);
  CHECK(ours["bubble"] == ours["phases"][1]["bubble"]);
  CHECK(ours["bubble"]["observed"].is_null());
}

TEST_CASE("results that are damaged, foreign or of another format are refused in one line") {
  const TemporaryFolder folder;
  const std::string file = folder.file("results.json", "");
  const std::string whole = text_of(some_results());
  CHECK(refusal(file, "", {file, "is not the results of a run"}) == "");
  CHECK(refusal(file, whole.substr(0, whole.size() / 2), {file, "is not"}) == "");
  CHECK(refusal(file, "{}", {file, "lockstep_results"}) == "");
  CHECK(refusal(file, R"({"lockstep_results":2})", {"has format 2"}) == "");
  const auto with = [&](const std::string& key, const nlohmann::json& value,
                        const std::string& word) {
    auto document = nlohmann::json::parse(whole);
    document[nlohmann::json::json_pointer(key)] = value;
    return refusal(file, document.dump(), {file, word});
  };
  CHECK(with("/pipeline", {0, 2}, "pipeline's ranks do not fit") == "");
  CHECK(with("/steps", 0, "steps and ranks") == "");
  CHECK(with("/steps", 4, "phases do not fit") == "");
  CHECK(with("/ranks/1/rank", 0, "ranks do not fit") == "");
  CHECK(with("/ranks/0/phases", nlohmann::json::array(), "phases do not fit") == "");
  CHECK(with("/ranks/0/phases/0/bytes_sent", {1}, "out of range") == "");
  CHECK(with("/first_microbatches", {4}, "phases do not fit") == "");
  CHECK(with("/facts", 3, "facts") == "");
  CHECK(refusal(file, std::string(100, '[') + std::string(100, ']'), {"nested", "64"}) == "");
  nlohmann::json many;
  for (int i = 0; i < 5000; ++i) many[std::to_string(i)] = "{\":";
  CHECK(with("/own", many, "more than 4096 keys") == "");
  CHECK(refusal((folder.path() / "none" / "results.json").string(), "", {"none"}) == "");
}

TEST_CASE("no string that is read from results.json can control a terminal") {
  const TemporaryFolder folder;
  RunResults run = some_results();
  run.sample = "\x1b[2J";
  const RunResults read = read_results(folder.file("results.json", text_of(run)));
  CHECK(read.sample == "\\x1b[2J");
}
