#include "core/plan/flops.h"

#include "core/plan/model_presets.h"
#include "tests/model/fixture.h"

using namespace lockstep;
using namespace lockstep::test;

TEST_CASE("published FLOPs of a GPT are the papers' formulas") {
  std::mt19937 random{5};
  for (int i = 0; i < 50; ++i) {
    const GptConfig config = random_config(random);
    const double L = config.layers, h = config.hidden, V = config.vocabulary, s = config.sequence;
    const auto formula = [&](double factor, double attention, double head) {
      return doctest::Approx(factor * L * h * h * (1 + s / (attention * h) + V / (head * L * h)))
          .epsilon(1e-12);
    };
    CHECK(published_flops_per_token(config) == formula(72, 6, 12));
    CHECK(published_flops_per_token_with_selective_recomputation(config) == formula(72, 3, 12));
    CHECK(published_flops_per_token_with_full_recomputation(config) == formula(96, 6, 16));
  }
}

TEST_CASE("published FLOPs are those of all products, and Lockstep's with the masked half") {
  for (const std::string& name : model_presets()) {
    if (!is_published(name)) continue;
    CAPTURE(name);
    const GptConfig config = model_preset(name);
    const double h = config.hidden, s = config.sequence, d = config.head_width();
    const double keys = h * config.kv_heads() * d, f = config.mlp_width();
    // Elements of: queries, keys and values, output; MLP; scores, weighted values.
    const double forward = 2 * (h * h + 2 * keys + h * h + (config.llama ? 3 : 2) * h * f) +
                           2 * config.heads * (s * d + s * d);
    const double head = 2 * h * config.vocabulary;
    const double published = 3 * (config.layers * forward + head);
    CHECK(published_flops_per_token(config) == doctest::Approx(published).epsilon(1e-12));
    CHECK(published_flops_per_token_with_full_recomputation(config) ==
          doctest::Approx(published + config.layers * forward).epsilon(1e-12));
    CHECK(config.flops_per_token() ==
          doctest::Approx(published - 6 * config.layers * s * h).epsilon(1e-12));
  }
}

TEST_CASE("Korthikanti 2022, table 5: utilization of the 22B and the 530B model") {
  struct Row {
    const char* model;
    double devices, sequences, seconds, mfu, hfu;  // utilization in percent
  };
  for (const auto& [model, devices, sequences, seconds, mfu, hfu] :
       {Row{"gpt-22b", 8, 4, 1.10, 41.5, 43.7}, {"gpt-530b", 280, 280, 37.83, 56.0, 57.0}}) {
    CAPTURE(std::string{model});
    const GptConfig config = model_preset(model);
    const double tokens = sequences * config.sequence;
    const double percent = 100 * tokens / (devices * 312e12 * seconds);
    CHECK(std::abs(percent * published_flops_per_token(config) - mfu) < 0.5);
    CHECK(std::abs(percent * published_flops_per_token_with_selective_recomputation(config) - hfu) <
          0.5);
  }
}

TEST_CASE("Narayanan 2021: days of training GPT-3, and a model of 1T parameters") {
  struct Training {
    const char* model;
    double tokens, devices, flops, days;  // flops per second and device, with full recomputation
  };
  for (const auto& [model, tokens, devices, flops, days] :
       {Training{"gpt3-175b", 300e9, 1024, 140e12, 34}, {"gpt-1t", 450e9, 3072, 163e12, 84}}) {
    CAPTURE(std::string{model});
    const double seconds = tokens *
                           published_flops_per_token_with_full_recomputation(model_preset(model)) /
                           (devices * flops);
    // The paper estimates 8 · tokens · parameters FLOPs, without attention's.
    CHECK(seconds / 86'400 == doctest::Approx(days).epsilon(0.03));
  }
}
