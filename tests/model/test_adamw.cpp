#include "core/model/adamw.h"

#include "core/model/sample.h"
#include "tests/model/fixture.h"

using namespace lockstep;
using namespace lockstep::test;

namespace {

/// Parameters without a model, with random gradients.
struct Loose {
  Loose() {
    std::mt19937 random{10};
    std::normal_distribution<float> normal{0, 1};
    int order = 0;
    for (const Shape& shape : {Shape{5, 7}, Shape{13}, Shape{2, 3}}) {
      owned.push_back(std::make_unique<Parameter>(ParameterSpec{.name = "p",
                                                                .shape = shape,
                                                                .order = 3 * order++,
                                                                .decay = shape.rank() == 2,
                                                                .deviation = 0.5F},
                                                  Slice{}, one.device(), 4));
      for (std::int64_t i = 0; i < shape.elements(); ++i)
        owned.back()->gradient.f32()[i] = normal(random);
      parameters.push_back(owned.back().get());
    }
  }
  double norm() const {
    double sum = 0;
    for (const Parameter* parameter : parameters)
      for (float g : floats(parameter->gradient))
        sum += static_cast<double>(g) * static_cast<double>(g);
    return std::sqrt(sum);
  }
  OneDevice one;
  std::vector<std::unique_ptr<Parameter>> owned;
  std::vector<Parameter*> parameters;
};

}  // namespace

TEST_CASE("AdamW matches a textbook loop in double") {
  for (float clip : {0.0F, 0.5F, 100.0F}) {
    CAPTURE(clip);
    Loose loose;
    AdamW optimizer{loose.parameters,
                    loose.one.device(),
                    {.learning_rate = 0.01F, .epsilon = 1e-8F, .weight_decay = 0.3F, .clip = clip}};
    std::vector<std::vector<double>> theta, m, v;
    for (const Parameter* parameter : loose.parameters) {
      const Floats start = floats(parameter->value);
      theta.emplace_back(start.begin(), start.end());
      m.emplace_back(start.size(), 0.0);
      v.emplace_back(start.size(), 0.0);
    }
    for (int step = 1; step <= 5; ++step) {
      const double norm = loose.norm();
      const double scale = clip > 0 ? std::min(1.0, static_cast<double>(clip) / (norm + 1e-6)) : 1;
      for (std::size_t p = 0; p < theta.size(); ++p) {
        for (std::size_t i = 0; i < theta[p].size(); ++i) {
          const double g = scale * static_cast<double>(loose.parameters[p]->gradient.f32()[i]);
          if (loose.parameters[p]->decay) theta[p][i] *= 1 - 0.01 * 0.3;
          m[p][i] = 0.9 * m[p][i] + 0.1 * g;
          v[p][i] = 0.95 * v[p][i] + 0.05 * g * g;
          theta[p][i] -= 0.01 * (m[p][i] / (1 - std::pow(0.9, step))) /
                         (std::sqrt(v[p][i] / (1 - std::pow(0.95, step))) + 1e-8);
        }
      }
      optimizer.step();
      for (std::size_t p = 0; p < theta.size(); ++p)
        for (std::size_t i = 0; i < theta[p].size(); ++i)
          CHECK(std::abs(static_cast<double>(loose.parameters[p]->value.f32()[i]) - theta[p][i]) <
                2e-6);
      for (Parameter* parameter : loose.parameters)
        for (std::int64_t i = 0; i < parameter->gradient.elements(); ++i)
          parameter->gradient.f32()[i] *= i % 2 == 0 ? -0.9F : 1.1F;
    }
    CHECK(optimizer.steps() == 5);
  }
}

TEST_CASE("the norm and its clipping") {
  Loose loose;
  const double norm = loose.norm();
  AdamW optimizer{loose.parameters, loose.one.device(), {.clip = 0.25F}};
  auto squares = optimizer.squares();
  REQUIRE(squares.size() == 3);
  CHECK(squares[1].first == 3);
  CHECK(gradient_norm(squares) == doctest::Approx(norm).epsilon(1e-12));
  // Ranks may deliver squares in any order; the sum does not depend on that order.
  std::swap(squares[0], squares[2]);
  CHECK(gradient_norm(squares) == gradient_norm(optimizer.squares()));
  // Adding a 1.0 to a very large number would lose the 1.0; summing the 1.0s first does not.
  std::vector<OrderedSquare> late{{9999, 0x1p53}};
  for (int i = 0; i < 4096; ++i) late.emplace_back(i, 1.0);
  CHECK(gradient_norm(late) == std::sqrt(0x1p53 + 4096));
  CHECK(optimizer.clip_scale(norm) == doctest::Approx(0.25 / norm));
  CHECK(optimizer.clip_scale(0.1) == 1);
  CHECK(AdamW{loose.parameters, loose.one.device(), {.clip = 0}}.clip_scale(1e9) == 1);
}

TEST_CASE("a model memorises its text and generates it") {
  const GptConfig config{
      .layers = 2, .hidden = 32, .heads = 4, .sequence = 16, .vocabulary = 128, .tied = true};
  const std::string verse = "the quick brown fox jumps over the lazy dog; ";
  std::string text;
  for (int i = 0; i < 8; ++i) text += verse;
  const Corpus corpus{text, config};
  OneDevice one;
  Gpt model{config, one.device(), StageLayers::whole(config), 1};
  AdamW optimizer{model.parameters(), one.device(), {.learning_rate = 5e-3F}};
  double first = 0, last = 0;
  for (int step = 0; step < 150; ++step) {
    model.zero_gradients();
    last = accumulate_gradients(model, corpus.batch(1, step, {.microbatches = 1, .size = 8}));
    if (step == 0) first = last;
    optimizer.step();
  }
  CHECK(first > 4);
  CHECK(last < 0.3);
  const std::string said = generate(model, "the quick ", {.tokens = 30});
  CHECK(said == verse.substr(10, 30));
  const SampleOptions warm{.tokens = 20, .temperature = 1.5F, .seed = 3};
  CHECK(generate(model, "the ", warm) == generate(model, "the ", warm));
  CHECK(generate(model, "the ", warm) !=
        generate(model, "the ", {.tokens = 20, .temperature = 1.5F, .seed = 4}));
}

TEST_CASE("the optimizer is one range in the timeline") {
  Loose loose;
  Clock clock = Clock::modelled(Cluster{}, FixedTimes::parse("optimizer=3ms"));
  Recorder trace;
  Stream stream{clock, trace, 0, DeviceKind::cpu};
  AdamW optimizer{loose.parameters, {loose.one.memory, stream}};
  optimizer.step();
  const auto events = trace.drain();
  REQUIRE(events.size() == 1);
  CHECK(events[0].span.category == Category::optimizer);
  CHECK(events[0].end - events[0].start == 3'000'000'000);
}
