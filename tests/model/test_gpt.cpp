#include <span>

#include "tests/model/fixture.h"

using namespace lockstep;
using namespace lockstep::test;

namespace {

GptConfig five_blocks(bool tied) {
  return {.layers = 5, .hidden = 24, .heads = 3, .sequence = 10, .vocabulary = 40, .tied = tied};
}

struct Result {
  std::vector<double> losses;
  std::vector<Named> gradients;
  bool operator==(const Result&) const = default;
};

Result run_stages(const GptConfig& config, int stages, const Batch& batch, bool halves) {
  Stages pipeline{config, stages, 3};
  Result result;
  for (const Microbatch& microbatch : batch.microbatches)
    result.losses.push_back(pipeline.run(microbatch, halves));
  result.gradients = pipeline.all_gradients();
  return result;
}

}  // namespace

TEST_CASE("composed stages give the bits of the whole model, halves separated or together") {
  for (bool tied : {false, true}) {
    CAPTURE(tied);
    const GptConfig config = five_blocks(tied);
    const Batch batch = random_batch(config, 3, 2);
    const Result whole = run_stages(config, 1, batch, false);
    CHECK(whole.losses[0] > 0);
    for (int stages : {1, 2, 4, 5}) {
      CAPTURE(stages);
      CHECK(run_stages(config, stages, batch, false) == whole);
      CHECK(run_stages(config, stages, batch, true) == whole);
    }
  }
}

TEST_CASE("the same run twice gives the same bits") {
  std::mt19937 random{5};
  for (int i = 0; i < 10; ++i) {
    const GptConfig config = random_config(random);
    const Batch batch = random_batch(config, 2, 2);
    CHECK(run_stages(config, 1, batch, false) == run_stages(config, 1, batch, false));
  }
}

TEST_CASE("microbatches add up to the batch") {
  for (bool tied : {false, true}) {
    const GptConfig config = five_blocks(tied);
    const auto run = [&](int m) {
      OneDevice one;
      Gpt model{config, one.device(), StageLayers::whole(config), 3};
      const double loss = accumulate_gradients(model, random_batch(config, m, 8 / m));
      return std::pair{loss, gradients(model)};
    };
    const auto [loss, whole] = run(1);
    // At initialisation the prediction is nearly uniform.
    CHECK(loss == doctest::Approx(std::log(config.vocabulary)).epsilon(0.05));
    for (int m : {2, 4, 8}) {
      const auto [sum, parts] = run(m);
      CHECK(sum == doctest::Approx(loss).epsilon(1e-6));
      for (std::size_t i = 0; i < whole.size(); ++i) {
        CAPTURE(whole[i].name);
        // The key bias, a third of this vector, has no gradient beyond rounding errors.
        CHECK(relative_distance(parts[i].values, whole[i].values) < 1e-5);
      }
    }
  }
}

TEST_CASE("gradients match finite differences of the loss") {
  const GptConfig config{
      .layers = 2, .hidden = 8, .heads = 2, .sequence = 5, .vocabulary = 11, .tied = true};
  OneDevice one;
  Gpt model{config, one.device(), StageLayers::whole(config), 3};
  // The values are larger than initial values usually are, so that the differences exceed rounding
  // errors.
  std::mt19937 random{6};
  std::normal_distribution<float> normal{0, 0.3F};
  for (Parameter* parameter : model.parameters())
    for (float& x :
         std::span{parameter->value.f32(), static_cast<std::size_t>(parameter->value.elements())})
      x += normal(random);
  const Batch batch = random_batch(config, 1, 2);
  accumulate_gradients(model, batch);
  const auto loss = [&] {
    Stash stash;
    model.forward(batch.microbatches[0], {}, stash);
    return model.loss(stash);
  };
  for (Parameter* parameter : model.parameters()) {
    CAPTURE(parameter->name);
    // Checks the derivative in a random direction, which tests all elements at once.
    const auto n = static_cast<std::size_t>(parameter->value.elements());
    const Floats start = floats(parameter->value);
    Floats direction(n);
    double predicted = 0, length = 0;
    for (std::size_t i = 0; i < n; ++i) {
      direction[i] = normal(random);
      predicted +=
          static_cast<double>(direction[i]) * static_cast<double>(parameter->gradient.f32()[i]);
      length += std::pow(static_cast<double>(direction[i]), 2);
    }
    const float epsilon = static_cast<float>(0.02 / std::sqrt(length));
    const auto at = [&](float along) {
      for (std::size_t i = 0; i < n; ++i)
        parameter->value.f32()[i] = start[i] + along * direction[i];
      return loss();
    };
    const double slope = (at(epsilon) - at(-epsilon)) / (2.0 * static_cast<double>(epsilon));
    at(0);
    CHECK(slope == doctest::Approx(predicted).epsilon(0.02).scale(std::sqrt(length) * 0.01));
  }
}

TEST_CASE("the timeline records the memory of every forward and backward") {
  const GptConfig config = five_blocks(false);
  OneDevice one;
  Recorder trace;
  Stream stream{one.clock, trace, 0, DeviceKind::cpu};
  Gpt model{config, {one.memory, stream}, StageLayers::whole(config), 3};
  accumulate_gradients(model, random_batch(config, 2, 2));
  std::vector<std::int64_t> activations;
  for (const TraceEvent& event : trace.drain())
    if (event.kind == TraceEvent::Kind::memory)
      activations.push_back(event.bytes[static_cast<std::size_t>(MemoryCategory::activations)]);
  REQUIRE(activations.size() == 4);  // two for each of two microbatches
  CHECK(activations[0] > 0);
  CHECK(activations[0] == activations[2]);
  CHECK(activations[1] == 0);
  CHECK(activations[3] == 0);
}

TEST_CASE("zero_gradients resets gradients") {
  for (bool tied : {false, true}) {
    const GptConfig config = five_blocks(tied);
    const Batch batch = random_batch(config, 1, 2);
    OneDevice one;
    Gpt model{config, one.device(), StageLayers::whole(config), 3};
    accumulate_gradients(model, batch);
    const auto first = gradients(model);
    model.zero_gradients();
    accumulate_gradients(model, batch);
    CHECK(gradients(model) == first);
  }
}

TEST_CASE("backward without forward is an error, not a crash") {
  const GptConfig config = five_blocks(false);
  OneDevice one;
  Gpt model{config, one.device(), StageLayers::whole(config), 3};
  Stash stash;
  CHECK_THROWS_AS(model.backward({}, stash), std::logic_error);
  CHECK_THROWS_AS(model.loss(stash), std::logic_error);
}

TEST_CASE(
    "on the meta device a model is counted and charged as on a real device, and nothing runs") {
  std::mt19937 random{7};
  for (int i = 0; i < 10; ++i) {
    const GptConfig config = random_config(random);
    const Batch batch = random_batch(config, 2, 2);
    const auto run = [&](DeviceKind kind) {
      OneDevice one{kind, flop_clock()};
      Gpt model{config, one.device(), StageLayers::whole(config), 3};
      CHECK(one.stream.now() == 0);  // setup takes no modelled time
      model.zero_gradients();
      const double loss = accumulate_gradients(model, batch);
      CHECK((loss == 0) == (kind == DeviceKind::meta));
      return std::tuple{one.memory.peak().bytes, one.memory.current().bytes, one.stream.now()};
    };
    CHECK(run(DeviceKind::cpu) == run(DeviceKind::meta));
  }
}

TEST_CASE("FLOPs are the model FLOPs of the literature") {
  // Without recomputation, Narayanan 2021 gives 72 b s L h² (1 + s/(6h) + V/(12 h L)), counting
  // attention in full, and each backward pass as two forward passes. Lockstep counts half of causal
  // attention, and counts its backward pass as 2.5 times its forward pass (the scores are
  // recomputed).
  std::mt19937 random{8};
  for (int i = 0; i < 20; ++i) {
    const GptConfig config = random_config(random);
    const double L = config.layers, h = config.hidden, V = config.vocabulary, s = config.sequence;
    const int b = 1 + static_cast<int>(random() % 3);
    const double in_full = 72 * b * s * L * h * h * (1 + s / (6 * h) + V / (12 * h * L));
    const double attention_in_full = 12 * b * s * s * h * L;
    const double attention_ours = (2 + 5) * b * s * s * h * L;
    for (bool halves : {false, true}) {
      OneDevice one{DeviceKind::meta, flop_clock()};
      Gpt model{config, one.device(), StageLayers::whole(config), 3};
      Stash stash;
      model.forward(random_batch(config, 1, b).microbatches[0], {}, stash);
      const double forward = static_cast<double>(one.stream.now());
      if (halves) {
        model.backward_input({}, stash);
        model.backward_weight(stash);
      } else {
        model.backward({}, stash);
      }
      CHECK(forward ==
            doctest::Approx(24 * b * s * L * h * h + 2 * b * s * s * h * L + 2 * b * s * h * V)
                .epsilon(1e-12));
      CHECK(static_cast<double>(one.stream.now()) ==
            doctest::Approx(in_full - attention_in_full + attention_ours).epsilon(1e-12));
    }
  }
}
