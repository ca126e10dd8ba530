#include <map>
#include <span>

#include "tests/model/fixture.h"

using namespace lockstep;
using namespace lockstep::test;

namespace {

GptConfig small(bool tied) {
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

/// Relative distance in the 2-norm.
double distance(const Floats& a, const Floats& b) {
  double difference = 0, size = 0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    difference += std::pow(static_cast<double>(a[i]) - static_cast<double>(b[i]), 2);
    size += std::pow(static_cast<double>(b[i]), 2);
  }
  return std::sqrt(difference / std::max(size, 1e-12));
}

}  // namespace

TEST_CASE("composed stages give the bits of the whole model, halves separated or together") {
  for (bool tied : {false, true}) {
    CAPTURE(tied);
    const GptConfig config = small(tied);
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
    const GptConfig config = small(tied);
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
        CHECK(distance(parts[i].values, whole[i].values) < 1e-5);
      }
    }
  }
}

TEST_CASE("gradients match finite differences of the loss") {
  const GptConfig config{
      .layers = 2, .hidden = 8, .heads = 2, .sequence = 5, .vocabulary = 11, .tied = true};
  OneDevice one;
  Gpt model{config, one.device(), StageLayers::whole(config), 3};
  // Larger than initial values usually are, so that the differences exceed rounding errors.
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
    // Checks the derivative along a random direction, which tests all elements at once.
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
  const GptConfig config = small(false);
  OneDevice one;
  Recorder trace;
  Stream stream{one.clock, trace, 0, DeviceKind::cpu};
  Gpt model{config, {one.memory, stream}, StageLayers::whole(config), 3};
  accumulate_gradients(model, random_batch(config, 2, 2));
  std::vector<std::int64_t> activations;
  for (const TraceEvent& event : trace.drain())
    if (event.kind == TraceEvent::Kind::memory)
      activations.push_back(event.bytes[static_cast<std::size_t>(MemoryCategory::activations)]);
  REQUIRE(activations.size() == 4);  // of two microbatches
  CHECK(activations[0] > 0);
  CHECK(activations[0] == activations[2]);
  CHECK(activations[1] == 0);
  CHECK(activations[3] == 0);
}

TEST_CASE("zero_gradients resets gradients") {
  for (bool tied : {false, true}) {
    const GptConfig config = small(tied);
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

TEST_CASE("hooks run around every unit, in order") {
  using Log = std::vector<std::pair<char, int>>;
  struct Recording : LayerHooks {
    void before_forward(const Unit& unit) override { log.emplace_back('F', unit.index); }
    void after_forward(const Unit& unit) override { log.emplace_back('f', unit.index); }
    void before_backward(const Unit& unit) override { log.emplace_back('B', unit.index); }
    void after_backward_input(const Unit& unit) override { log.emplace_back('i', unit.index); }
    void after_backward(const Unit& unit) override { log.emplace_back('b', unit.index); }
    Log log;
  } hooks;
  GptConfig config = small(true);
  config.layers = 2;
  OneDevice one;
  Gpt model{config, one.device(), StageLayers::whole(config), 3};
  const HookScope scope{model, hooks};
  const Batch batch = random_batch(config, 1, 1);
  accumulate_gradients(model, batch);
  const auto then = [](Log first, const Log& second) {
    first.insert(first.end(), second.begin(), second.end());
    return first;
  };
  const Log forward{{'F', 0}, {'f', 0}, {'F', 1}, {'f', 1}, {'F', 2}, {'f', 2}, {'F', 3}, {'f', 3}};
  CHECK(hooks.log == then(forward, {{'B', 3},
                                    {'i', 3},
                                    {'b', 3},
                                    {'B', 2},
                                    {'i', 2},
                                    {'b', 2},
                                    {'B', 1},
                                    {'i', 1},
                                    {'b', 1},
                                    {'B', 0},
                                    {'i', 0},
                                    {'b', 0}}));

  hooks.log.clear();
  Stash stash;
  model.forward(batch.microbatches[0], {}, stash);
  model.backward_input({}, stash);
  model.backward_weight(stash);
  CHECK(hooks.log == then(forward, {{'B', 3},
                                    {'i', 3},
                                    {'B', 2},
                                    {'i', 2},
                                    {'B', 1},
                                    {'i', 1},
                                    {'B', 0},
                                    {'i', 0},
                                    {'b', 3},
                                    {'b', 2},
                                    {'b', 1},
                                    {'b', 0}}));

  // Together the units hold every parameter once, except a tied head's token table, which appears
  // twice.
  std::size_t count = 0;
  for (const Unit& unit : model.units()) count += unit.parameters.size();
  CHECK(count == model.parameters().size() + 1);
  CHECK(model.units().back().parameters.back() == model.parameters().front());
}

TEST_CASE("hooks nest: the one added later is the inner one, and each can be removed separately") {
  struct Recording : LayerHooks {
    Recording(std::string& log_, char name_) : log(log_), name(name_) {}
    void before_forward(const Unit&) override { log += {name, 'F', ' '}; }
    void after_forward(const Unit&) override { log += {name, 'f', ' '}; }
    void before_backward(const Unit&) override { log += {name, 'B', ' '}; }
    void after_backward_input(const Unit&) override { log += {name, 'i', ' '}; }
    void after_backward(const Unit&) override { log += {name, 'b', ' '}; }
    void gradients_ready(const Unit&) override { log += {name, 'r', ' '}; }
    std::string& log;
    char name;
  };
  GptConfig config = small(false);
  config.layers = 1;
  OneDevice one;
  Gpt model{config, one.device(), {.first = 0, .last = 1}, 3};
  const Tensor x{one.memory, {1, config.sequence, config.hidden}, MemoryCategory::activations};
  fill_with_zeros(one.device(), x);
  std::string log;
  const auto pass = [&] {
    log.clear();
    Stash stash;
    Tensor y = model.forward({.last = true}, x.share(), stash);
    model.backward(std::move(y), stash);
    return log;
  };
  Recording first{log, '1'}, second{log, '2'};
  {
    HookScope outer{model, first};
    {
      const HookScope inner{model, second};
      CHECK(pass() == "1F 2F 2f 1f 1B 2B 2i 1i 2b 1b 2r 1r ");
    }
    CHECK(pass() == "1F 1f 1B 1i 1b 1r ");
    HookScope inner{model, second};
    outer = HookScope{};  // the outer hooks may be removed first
    CHECK(pass() == "2F 2f 2B 2i 2b 2r ");
    HookScope moved = std::move(inner);
    CHECK(pass() == "2F 2f 2B 2i 2b 2r ");
  }
  CHECK(pass().empty());
}

TEST_CASE("gradients are ready once per step, after the last microbatch, and then stay unchanged") {
  struct Readiness : LayerHooks {
    void after_backward(const Unit& unit) override { ++done[unit.index]; }
    void gradients_ready(const Unit& unit) override {
      units.push_back(unit.index);
      CHECK(done[unit.index] == microbatches);
      if (unit.index == 3) return;  // the tied table belongs to the embedding
      for (const Parameter* parameter : unit.parameters)
        seen.push_back({parameter->name, floats(parameter->gradient)});
    }
    int microbatches = 0;
    std::map<int, int> done;
    std::vector<int> units;
    std::vector<Named> seen;
  };
  GptConfig config = small(true);
  config.layers = 2;
  for (const int microbatches : {1, 3}) {
    for (const bool halves : {false, true}) {
      CAPTURE(microbatches);
      CAPTURE(halves);
      OneDevice one;
      Gpt model{config, one.device(), StageLayers::whole(config), 3};
      Readiness hooks;
      hooks.microbatches = microbatches;
      const HookScope scope{model, hooks};
      for (const Microbatch& microbatch : random_batch(config, microbatches, 1).microbatches) {
        Stash stash;
        model.forward(microbatch, {}, stash);
        if (!halves) model.backward({}, stash);
        if (halves) model.backward_input({}, stash);
        if (halves) model.backward_weight(stash);
      }
      CHECK(hooks.units == std::vector{3, 2, 1, 0});
      const auto last = gradients(model);
      for (const Named& each : hooks.seen) CHECK(std::ranges::count(last, each) == 1);
      model.finish_gradients();  // has already run
      CHECK(gradients(model) == last);
    }
  }
}

TEST_CASE("backward without forward is an error, not a crash") {
  const GptConfig config = small(false);
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
  // Narayanan 2021 without recomputation gives 72 b s L h² (1 + s/(6h) + V/(12 h L)), with
  // attention counted in full, and twice as much in backward as in forward. We count causal
  // attention half, and 2.5 times as much in backward (the scores are recomputed).
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
