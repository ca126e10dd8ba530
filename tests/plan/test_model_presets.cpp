#include "core/plan/model_presets.h"

#include <set>

#include "tests/model/fixture.h"

using namespace lockstep;
using namespace lockstep::test;

namespace {

struct PublishedGpt {
  const char* name;
  int layers, hidden, heads;
  double billions;  ///< with the head tied to the token table
};

}  // namespace

TEST_CASE("published GPTs have their published shapes and sizes") {
  // Sizes: Brown 2020, table D.1 (13B, 175B); Narayanan 2021, table 1 (530B, 1T). The 22B is only
  // known by its name.
  const PublishedGpt published[] = {{"gpt3-13b", 40, 5120, 40, 12.85},
                                    {"gpt-22b", 48, 6144, 64, 22.1},
                                    {"gpt3-175b", 96, 12288, 96, 174.6},
                                    {"gpt-530b", 105, 20480, 128, 529.6},
                                    {"gpt-1t", 128, 25600, 160, 1008.0}};
  for (const auto& [name, layers, hidden, heads, billions] : published) {
    CAPTURE(std::string{name});
    GptConfig config = model_preset(name);
    CHECK(config == GptConfig{.layers = layers,
                              .hidden = hidden,
                              .heads = heads,
                              .sequence = 2048,
                              .vocabulary = 51200});
    const double L = layers, h = hidden, s = 2048, V = 51200;
    // Narayanan 2021's formula, which omits the final LayerNorm.
    const double tied = 12 * L * h * h * (1 + 13 / (12 * h) + (V + s) / (12 * L * h));
    CHECK(tied == doctest::Approx(billions * 1e9).epsilon(2e-3));
    CHECK(static_cast<double>(config.parameter_count()) ==
          doctest::Approx(tied + V * h + 2 * h).epsilon(1e-12));
    config.tied = true;
    CHECK(static_cast<double>(config.parameter_count()) ==
          doctest::Approx(tied + 2 * h).epsilon(1e-12));
  }
}

TEST_CASE("published Llamas have their published shapes and sizes") {
  struct Published {
    const char* name;
    std::int64_t layers, hidden, heads, kv_heads, mlp_width, sequence, vocabulary;
    double theta;
    std::int64_t parameters;  ///< elements of the published checkpoint, as transformers counts them
  };
  const Published published[] = {
      {"llama2-7b", 32, 4096, 32, 32, 11008, 4096, 32000, 1e4, 6'738'415'616},
      {"llama2-13b", 40, 5120, 40, 40, 13824, 4096, 32000, 1e4, 13'015'864'320},
      {"llama2-70b", 80, 8192, 64, 8, 28672, 4096, 32000, 1e4, 68'976'648'192},
      {"llama3-8b", 32, 4096, 32, 8, 14336, 8192, 128256, 5e5, 8'030'261'248},
      {"llama3-70b", 80, 8192, 64, 8, 28672, 8192, 128256, 5e5, 70'553'706'496},
      {"llama3-405b", 126, 16384, 128, 8, 53248, 8192, 128256, 5e5, 405'853'388'800}};
  for (const auto& [name, L, h, a, g, f, s, V, theta, parameters] : published) {
    CAPTURE(std::string{name});
    const GptConfig config = model_preset(name);
    const auto whole = [](std::int64_t value) { return static_cast<int>(value); };
    CHECK(config == GptConfig{.layers = whole(L),
                              .hidden = whole(h),
                              .heads = whole(a),
                              .sequence = whole(s),
                              .vocabulary = whole(V),
                              .llama = LlamaConfig{
                                  .kv_heads = whole(g), .mlp_width = whole(f), .theta = theta}});
    const std::int64_t d = h / a;
    CHECK(L * (2 * h * h + 2 * g * d * h + 3 * f * h + 2 * h) + 2 * V * h + h == parameters);
    CHECK(config.parameter_count() == parameters);
  }
}

TEST_CASE("each preset but the lessons' two is published, valid and named once") {
  std::set<std::string> names;
  for (const std::string& name : model_presets()) {
    CAPTURE(name);
    CHECK(names.insert(name).second);
    CHECK(is_published(name) == (name != "gpt2" && name != "llama"));
    if (is_published(name)) CHECK_NOTHROW(model_preset(name).validate());
  }
  CHECK(names.size() == 2 + 5 + 6);
  CHECK(model_presets().front() == "gpt2");
}
