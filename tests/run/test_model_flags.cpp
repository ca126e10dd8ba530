#include <doctest/doctest.h>

#include <filesystem>
#include <string>
#include <utility>
#include <vector>

#include "core/model/checkpoint/model_file.h"
#include "tests/run/parsed_flags.h"
#include "tests/support/complaints.h"
#include "tests/support/temporary_folder.h"

using namespace lockstep;
using namespace lockstep::testing;

TEST_CASE("--model names a family or a published model, whose shape the other flags change") {
  const auto model = [](std::vector<std::string> flags) {
    flags.insert(flags.end(), {"--device", "meta"});
    return parse(flags)->plan.model();
  };
  CHECK(model({}) == GptConfig{});
  CHECK(model({"--model", "gpt2"}) == GptConfig{});
  GptConfig small;
  small.llama = LlamaConfig{.kv_heads = 2, .mlp_width = 176};
  CHECK(model({"--model", "llama"}) == small);
  small.layers = 3;
  small.tied = true;
  small.llama = LlamaConfig{.kv_heads = 1, .mlp_width = 90};
  CHECK(model({"--kv-heads", "1", "--layers", "3", "--mlp-width", "90", "--tied", "--model",
               "llama"}) == small);
  GptConfig published{.layers = 32,
                      .hidden = 4096,
                      .heads = 32,
                      .sequence = 8192,
                      .vocabulary = 128256,
                      .llama = LlamaConfig{.kv_heads = 8, .mlp_width = 14336, .theta = 500000}};
  CHECK(model({"--model", "llama3-8b"}) == published);
  published.layers = 2;
  published.llama->kv_heads = 4;
  CHECK(model({"--model", "llama3-8b", "--layers", "2", "--kv-heads", "4"}) == published);
  CHECK(model({"--model", "llama2-70b"}) ==
        GptConfig{.layers = 80,
                  .hidden = 8192,
                  .heads = 64,
                  .sequence = 4096,
                  .vocabulary = 32000,
                  .llama = LlamaConfig{.kv_heads = 8, .mlp_width = 28672, .theta = 10000}});
  GptConfig gpt{.layers = 96, .hidden = 12288, .heads = 96, .sequence = 2048, .vocabulary = 51200};
  CHECK(model({"--model", "gpt3-175b"}) == gpt);
  gpt.sequence = 1024;
  gpt.tied = true;
  CHECK(model({"--model", "gpt3-175b", "--sequence", "1024", "--tied"}) == gpt);
  CHECK(model({"--model", "llama3-70b"}).parameter_count() == 70'553'706'496);
  CHECK(model({"--model", "llama3-405b"}).parameter_count() == 405'853'388'800);
  // Tests that --tp divides sizes that no flag sets.
  const auto shape = [&](const std::vector<std::string>& flags) {
    const GptConfig llama = parse(flags, tensor_lesson)->plan.model();
    return std::pair{llama.kv_heads(), llama.mlp_width()};
  };
  CHECK(shape({"--model", "llama", "--tp", "4"}) == std::pair{4, 176});
  CHECK(shape({"--model", "llama", "--tp", "3", "--heads", "6", "--hidden", "48"}) ==
        std::pair{3, 144});
}

TEST_CASE("a wrong flag of a Llama gives one line with the flag, the value and a remedy") {
  const std::vector<Wrong> wrongs{
      {{"--model", "llama4"}, {"--model llama4", "one of gpt2, llama, gpt3-13b", "llama3-405b"}},
      {{"--model", "Llama"}, {"--model Llama", "one of gpt2, llama, gpt3-13b", "llama3-405b"}},
      {{"--model", ""}, {"--model", "one of gpt2, llama"}},
      {{"--model", "llama", "--kv-heads", "3"},
       {"--kv-heads 3 with --heads 4", "--kv-heads 2 or --kv-heads 4"}},
      {{"--model", "llama", "--kv-heads", "8"},
       {"--kv-heads 8 with --heads 4", "use --kv-heads 4"}},
      {{"--model", "llama", "--kv-heads", "0"}, {"--kv-heads 0", "at least 1"}},
      {{"--model", "llama", "--mlp-width", "-1"}, {"--mlp-width -1", "at least 1"}},
      {{"--model", "llama", "--mlp-width", "2e3"}, {"--mlp-width 2e3", "whole number"}},
      {{"--model", "llama", "--hidden", "60"},
       {"--heads 4 with --hidden 60", "an even number of them, not 15", "--hidden 64"}},
      {{"--model", "llama3-8b", "--heads", "4", "--device", "meta"},
       {"--kv-heads 8 with --heads 4", "use --kv-heads 4"}},
      {{"--model", "gpt-22b", "--kv-heads", "8", "--device", "meta"},
       {"--kv-heads 8", "a GPT-2 has as many", "leave --kv-heads out"}},
      {{"--kv-heads", "2"},
       {"--kv-heads 2", "a GPT-2 has as many", "--model llama", "leave --kv-heads out"}},
      {{"--model", "gpt2", "--mlp-width", "256"},
       {"--mlp-width 256", "4 times --hidden", "--model llama", "leave --mlp-width out"}},
  };
  for (const Wrong& wrong : wrongs) {
    CAPTURE(wrong.flags);
    CHECK(unlike(refusal(wrong.flags), wrong.words) == "");
  }
}

TEST_CASE("a folder's config.json sets the model, and --model may only confirm it") {
  const TemporaryFolder folder;
  const auto folder_of = [&](const std::string& name, const GptConfig& model) {
    std::filesystem::create_directory(folder.path() / name);
    folder.file(name + "/config.json", config_json(model));
    return (folder.path() / name).string();
  };
  GptConfig saved{.layers = 6,
                  .hidden = 24,
                  .heads = 6,
                  .sequence = 20,
                  .vocabulary = 300,
                  .tied = true,
                  .llama = LlamaConfig{.kv_heads = 3,
                                       .mlp_width = 50,
                                       .theta = 500,
                                       .epsilon = 1e-3,
                                       .scaling = RotaryScaling{.factor = 2},
                                       .longest_sequence = 20}};
  const std::string llama = folder_of("llama", saved);
  const std::string gpt2 = folder_of("gpt2", {.layers = 4, .hidden = 12});
  CHECK(parse({"--load", llama})->plan.model() == saved);
  CHECK(parse({"--load", llama, "--model", "llama"})->plan.model() == saved);
  CHECK(parse({"--load", gpt2, "--model", "gpt2"})->plan.model().hidden == 12);
  saved.sequence = 8;
  saved.llama->kv_heads = 2;
  CHECK(parse({"--load", llama, "--sequence", "8", "--kv-heads", "2"})->plan.model() == saved);
  const std::vector<Wrong> wrongs{
      {{"--load", llama, "--model", "gpt2"},
       {"--model gpt2", "--load " + llama + " is a Llama", "leave --model out"}},
      {{"--load", gpt2, "--model", "llama"},
       {"--model llama", "--load " + gpt2 + " is a GPT-2", "leave --model out"}},
      {{"--load", llama, "--model", "llama3-8b"},
       {"--model llama3-8b", "--load " + llama + " has another shape", "leave --model out"}},
      {{"--load", gpt2, "--model", "gpt3-13b"},
       {"--model gpt3-13b", "--load " + gpt2 + " has another shape", "leave --model out"}},
      {{"--load", gpt2, "--model", "llama2-7b"},
       {"--model llama2-7b", "--load " + gpt2 + " is a GPT-2", "leave --model out"}},
      {{"--load", gpt2, "--kv-heads", "2"}, {"--kv-heads 2", "of queries; leave --kv-heads out"}},
      {{"--load", gpt2, "--mlp-width", "9"}, {"--mlp-width 9", "columns; leave --mlp-width out"}},
      {{"--load", llama, "--kv-heads", "4"}, {"--kv-heads 4 with --heads 6", "--kv-heads 3"}},
  };
  for (const Wrong& wrong : wrongs) {
    CAPTURE(wrong.flags);
    CHECK(unlike(refusal(wrong.flags), wrong.words) == "");
  }
  // A sliding window does not matter for sequences that are not longer.
  std::string windowed = config_json(saved);
  windowed.insert(1, "\"sliding_window\": 16,");
  std::filesystem::create_directory(folder.path() / "windowed");
  folder.file("windowed/config.json", windowed);
  const std::string path = folder.path() / "windowed";
  CHECK(unlike(refusal({"--load", path}), {"--load " + path, "sliding_window 16", "--sequence 20",
                                           "use --sequence 16"}) == "");
  CHECK(parse({"--load", path, "--sequence", "16"})->plan.model().sequence == 16);
}
