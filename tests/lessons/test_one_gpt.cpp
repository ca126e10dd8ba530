#include <fstream>
#include <string>

#define main one_gpt_main
#include "lessons/00_ranks/one_gpt/gpt.cpp"  // NOLINT: its whole program, main included
#undef main

#include "core/model/adamw.h"
#include "core/run/options/corpus.h"
#include "tests/model/fixture.h"

using namespace lockstep;
using namespace lockstep::test;

namespace {

constexpr double one_gpt_tolerance = 1e-5;  // relative

/// Both lists of parameters are in the same order.
void check_same(const std::vector<one_gpt::Parameter*>& plain, const std::vector<Named>& whole,
                one_gpt::Floats one_gpt::Parameter::*tensor,
                double (*distance)(const Floats&, const Floats&) = relative_distance) {
  REQUIRE(plain.size() >= whole.size());  // a tied model's own head comes last, and is unused
  for (std::size_t i = 0; i < whole.size(); ++i) {
    CAPTURE(whole[i].name);
    REQUIRE((plain[i]->*tensor).size() == whole[i].values.size());
    CHECK(distance(plain[i]->*tensor, whole[i].values) < one_gpt_tolerance);
  }
}

}  // namespace

TEST_CASE("the GPT in one file has the losses and gradients of the model that the lessons train") {
  constexpr int steps = 4, sequences = 3;
  for (const bool tied : {false, true}) {
    CAPTURE(tied);
    GptConfig config;  // the lessons' default
    config.tied = tied;
    OneDevice one;
    Gpt model{config, one.device(), StageLayers::whole(config), one_gpt::seed};
    AdamW optimizer{model.parameters(), one.device(), {.clip = 0}};
    one_gpt::Gpt plain{tied};
    check_same(plain.parameters(), values(model), &one_gpt::Parameter::value);

    const std::string text = default_corpus();
    const Corpus corpus{text, config};
    for (int step = 0; step < steps; ++step) {
      CAPTURE(step);
      const Batch batch = corpus.batch(one_gpt::seed, step, {.microbatches = 1, .size = sequences});
      const one_gpt::Batch plain_batch =
          one_gpt::batch_of({text.begin(), text.end()}, step, sequences);
      CHECK(plain_batch.tokens == batch.tokens);
      CHECK(plain_batch.targets == batch.targets);

      model.zero_gradients();
      const double loss = accumulate_gradients(model, batch);
      CHECK(plain.forward(plain_batch) == doctest::Approx(loss).epsilon(one_gpt_tolerance));
      plain.backward(plain_batch);
      check_same(plain.parameters(), gradients(model), &one_gpt::Parameter::gradient);

      optimizer.step();
      one_gpt::adamw(plain.parameters(), step + 1);
    }
    // Biases start at 0, and AdamW enlarges rounding errors of their gradients.
    check_same(plain.parameters(), values(model), &one_gpt::Parameter::value, parity_distance);
  }
}

TEST_CASE("the GPT in one file fits on few pages and includes only the standard library") {
  std::ifstream file{LOCKSTEP_SOURCE_DIR "/lessons/00_ranks/one_gpt/gpt.cpp"};
  int lines = 0;
  for (std::string line; std::getline(file, line); ++lines)
    if (line.starts_with("#include")) CHECK(line.starts_with("#include <"));
  CHECK(lines > 100);
  CHECK(lines <= 400);
}
