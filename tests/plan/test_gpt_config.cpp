#include "tests/model/fixture.h"

using namespace lockstep;
using namespace lockstep::test;

TEST_CASE("the parameter count is the published formula") {
  std::mt19937 random{1};
  for (int i = 0; i < 50; ++i) {
    const GptConfig config = random_config(random);
    const double L = config.layers, h = config.hidden, V = config.vocabulary, s = config.sequence;
    // Narayanan 2021's formula assumes a tied head and omits the final LayerNorm.
    const double formula = 12 * L * h * h * (1 + 13 / (12 * h) + (V + s) / (12 * L * h));
    const std::int64_t rest =
        2 * config.hidden + (config.tied ? 0 : std::int64_t{config.vocabulary} * config.hidden);
    CHECK(static_cast<double>(config.parameter_count() - rest) ==
          doctest::Approx(formula).epsilon(1e-12));
  }
}

TEST_CASE("the parameter counts of published models") {
  // GPT-2 has 124,439,808 parameters; GPT-3, called 175B, has 174.6B.
  CHECK(GptConfig{12, 768, 12, 1024, 50257, true}.parameter_count() == 124'439'808);
  const GptConfig gpt3{96, 12288, 96, 2048, 50257, true};
  CHECK(static_cast<double>(gpt3.parameter_count()) == doctest::Approx(174.6e9).epsilon(1e-3));
}

TEST_CASE("impossible sizes give one line that names the flag, the value and a valid one") {
  const auto message = [](GptConfig config) { return usage_error([&] { config.validate(); }); };
  CHECK(contains(message({.layers = 0}), "--layers 0"));
  CHECK(contains(message({.hidden = -4}), "--hidden -4"));
  CHECK(contains(message({.heads = 0}), "--heads 0"));
  CHECK(contains(message({.sequence = 0}), "--sequence 0"));
  CHECK(contains(message({.vocabulary = -1}), "--vocab -1"));
  const std::string heads = message({.hidden = 64, .heads = 7});
  CHECK(contains(heads, "--heads 7"));
  CHECK(contains(heads, "use --heads 4, --heads 8 or --hidden 70"));
}

TEST_CASE("layers are spread over stages as evenly as possible, in order, each once") {
  std::mt19937 random{2};
  for (int i = 0; i < 100; ++i) {
    GptConfig config;
    config.layers = 1 + static_cast<int>(random() % 40);
    const int stages = 1 + static_cast<int>(random() % static_cast<unsigned>(config.layers));
    int next = 0, least = config.layers, most = 0;
    for (int stage = 0; stage < stages; ++stage) {
      const StageLayers layers = StageLayers::of(config, stage, stages);
      CHECK(layers.first == next);
      CHECK(layers.embedding == (stage == 0));
      CHECK(layers.head == (stage == stages - 1));
      least = std::min(least, layers.count());
      most = std::max(most, layers.count());
      next = layers.last;
    }
    CHECK(next == config.layers);
    CHECK(most - least <= 1);
  }
  GptConfig small;
  small.layers = 2;
  const std::string message = usage_error([&] { StageLayers::of(small, 0, 4); });
  CHECK(contains(message, "--layers 2"));
  CHECK(contains(message, "4 pipeline stages"));
  CHECK(contains(message, "--layers 4"));
}

TEST_CASE("a split gives each stage its number of blocks, in order") {
  const GptConfig config{.layers = 11};
  const std::vector<int> split{2, 5, 1, 3};
  int next = 0;
  for (int stage = 0; stage < 4; ++stage) {
    const StageLayers layers = StageLayers::of(config, stage, 4, split);
    CHECK(layers.first == next);
    CHECK(layers.count() == split[static_cast<std::size_t>(stage)]);
    CHECK(layers.embedding == (stage == 0));
    CHECK(layers.head == (stage == 3));
    next = layers.last;
  }
  CHECK(next == 11);
  for (int stage = 0; stage < 4; ++stage)
    CHECK(StageLayers::of(config, stage, 4, {3, 3, 3, 2}) == StageLayers::of(config, stage, 4));
  CHECK(even_split(config, 4) == std::vector{3, 3, 3, 2});

  const auto refused = [&](const std::vector<int>& wrong) {
    return usage_error([&] { StageLayers::of(config, 0, 4, wrong); });
  };
  CHECK(refused({4, 4, 3}) ==
        "--split 4,4,3: 4 stages need 4 numbers of blocks, not 3; use --split 3,3,3,2");
  CHECK(refused({4, 4, 3, 0}) ==
        "--split 4,4,3,0: stage 3 needs at least one block; use --split 3,3,3,2");
  CHECK(refused({3, 3, 3, 3}) ==
        "--split 3,3,3,3: these are 12 blocks, but --layers is 11; use --layers 12, or --split "
        "3,3,3,2");
}
