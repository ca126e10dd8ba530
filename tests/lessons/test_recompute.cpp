#include "lessons/14_mixed_precision/recompute.h"

#include <map>

#include "core/model/adamw.h"
#include "lessons/14_mixed_precision/experiment/recompute_table.h"
#include "tests/model/fixture.h"
#include "tests/support/pipeline_checks.h"
#include "tests/support/ranks.h"

using namespace lockstep;
using namespace lockstep::test;

namespace {

constexpr Recompute modes[] = {Recompute::none, Recompute::selective, Recompute::full};

Recomputing<> factory_of(Recompute mode) {
  return Recomputing<>{mode};
}

struct Trained {
  std::vector<double> losses;
  std::vector<Named> gradients, values;
  bool operator==(const Trained&) const = default;
};

/// Runs a few AdamW steps on stages with one device each, with the two halves of the backward pass
/// together or separated.
Trained train(const GptConfig& config, int stages, bool halves, const ModelBuilder& factory) {
  Stages pipeline{config, stages, 3, factory};
  std::vector<AdamW> optimizers;
  for (std::size_t i = 0; i < pipeline.models.size(); ++i)
    optimizers.emplace_back(pipeline.models[i]->parameters(), pipeline.devices[i].device(),
                            AdamWOptions{.learning_rate = 1e-2F});
  Trained result;
  for (int step = 0; step < 4; ++step) {
    for (auto& model : pipeline.models) model->zero_gradients();
    for (const Microbatch& microbatch : random_batch(config, 3, 2, step).microbatches)
      result.losses.push_back(pipeline.run(microbatch, halves));
    for (AdamW& optimizer : optimizers) optimizer.step();
  }
  result.gradients = pipeline.all_gradients();
  for (const auto& model : pipeline.models)
    for (Named& value : values(*model)) result.values.push_back(std::move(value));
  return result;
}

/// 1F1B with the weight halves deferred to the end, as in a zero-bubble schedule.
Schedule halves_apart(int stages, int microbatches) {
  Schedule schedule = one_f_one_b(stages, microbatches);
  schedule.name = "halves apart";
  for (std::vector<Action>& actions : schedule.actions) {
    const std::vector<Action> whole = actions;
    for (Action& action : actions)
      if (action.op == Op::backward) action.op = Op::backward_input;
    for (const Action& action : whole)
      if (action.op == Op::backward)
        actions.push_back({Op::backward_weight, action.stage, action.microbatch});
  }
  return schedule;
}

/// The whole model on a device that counts.
struct Lone {
  Lone(const GptConfig& config, int b, Recompute mode)
      : batch(random_batch(config, 1, b)),
        model(config, one.device(), StageLayers::whole(config), 3, factory_of(mode)) {}

  OneDevice one{DeviceKind::meta, flop_clock()};
  Batch batch;
  Gpt model;
};

}  // namespace

TEST_CASE("recomputation changes no bit: losses, gradients and parameters after some steps") {
  for (const auto& [tied, dtype] :
       {std::pair{false, DType::f32}, {true, DType::f32}, {false, DType::bf16}}) {
    CAPTURE(tied);
    const std::string name = name_of(dtype);
    CAPTURE(name);
    const GptConfig config{.layers = 5,
                           .hidden = 24,
                           .heads = 3,
                           .sequence = 70,
                           .vocabulary = 40,
                           .tied = tied,
                           .dtype = dtype};
    const Trained usual = train(config, 1, false, ModelBuilder{});
    for (const Recompute mode : modes)
      for (const bool halves : {false, true}) {
        const int named = static_cast<int>(mode);
        CAPTURE(named);
        CAPTURE(halves);
        CHECK(train(config, 1, halves, factory_of(mode)) == usual);
        // A tied table's two gradients would have to be added before the step; the pipeline tests
        // below cover that.
        if (!tied) CHECK(train(config, 3, halves, factory_of(mode)) == usual);
      }
  }
}

TEST_CASE("in a pipeline: the bits of one device that recomputes nothing") {
  for (const bool tied : {false, true}) {
    const Options one = lockstep::testing::small_training(1, 4, tied);
    const Reference reference = train_on_one_device(
        one, lockstep::testing::small_corpus(one.plan.model()), {{"", 0, one.run.steps, 4}});
    const Options options = lockstep::testing::small_training(4, 4, tied);
    for (const Recompute mode : modes)
      for (const auto generate : {one_f_one_b, halves_apart}) {
        const int named = static_cast<int>(mode);
        CAPTURE(named);
        CHECK(lockstep::testing::on_all(options, [&](Rank& rank) {
                return lockstep::testing::check_parity(rank, options, generate, reference,
                                                       factory_of(mode));
              }) == "");
      }
  }
}

TEST_CASE("FLOPs charged are the model's plus the derived extra ones, halves separated or not") {
  std::mt19937 random{15};
  for (int i = 0; i < 40; ++i) {
    const GptConfig config = random_config(random);
    const int batch = 1 + static_cast<int>(random() % 3);
    for (const Recompute mode : modes) {
      CHECK(counted(config, batch, mode) == derived(config, batch, mode));
      Lone lone{config, batch, mode};
      const Picoseconds start = lone.one.stream.now();
      Stash stash;
      lone.model.forward(lone.batch.microbatches.front(), {}, stash);
      lone.model.backward_input({}, stash);
      lone.model.backward_weight(stash);
      // On this clock one FLOP takes one picosecond and everything else takes no time.
      CHECK(static_cast<double>(lone.one.stream.now() - start) ==
            model_flops(config, batch) + extra_flops(config, config.layers, batch, mode));
    }
  }
}

TEST_CASE("a recomputed forward reads parameters only when backward may: ZeRO-3 unshards them") {
  /// Moves the parameters elsewhere between the forward and backward passes, and leaves garbage in
  /// their place.
  struct TakenAway : LayerHooks {
    void before_forward(const Unit& unit) override { give(unit); }
    void after_forward(const Unit& unit) override { take(unit); }
    void before_backward(const Unit& unit) override { give(unit); }
    void after_backward_input(const Unit& unit) override { take(unit); }
    void give(const Unit& unit) {
      for (Parameter* parameter : unit.parameters)
        parameter->value = View{kept[parameter].data(), parameter->shape};
    }
    void take(const Unit& unit) {
      for (Parameter* parameter : unit.parameters)
        parameter->value = View{useless.data(), parameter->shape};
    }
    std::map<Parameter*, Floats> kept;
    Floats useless = Floats(4096, 1e30F);
  };
  const GptConfig config{.layers = 3, .hidden = 16, .heads = 2, .sequence = 9, .vocabulary = 20};
  const auto run = [&](Recompute mode, bool taken_away) {
    OneDevice one;
    Gpt model{config, one.device(), StageLayers::whole(config), 3, factory_of(mode)};
    TakenAway hooks;
    for (Parameter* parameter : model.parameters())
      hooks.kept[parameter] = floats(parameter->value);
    const HookScope scope = taken_away ? HookScope{model, hooks} : HookScope{};
    const double loss = accumulate_gradients(model, random_batch(config, 2, 2));
    return std::pair{loss, gradients(model)};
  };
  for (const Recompute mode : modes) CHECK(run(mode, true) == run(Recompute::selective, false));
}

TEST_CASE("a recomputed forward is a range of category recompute, one per block") {
  const GptConfig config{.layers = 3, .hidden = 8, .heads = 2, .sequence = 6, .vocabulary = 20};
  for (const Recompute mode : modes) {
    OneDevice one{DeviceKind::cpu, flop_clock()};
    Recorder trace{true};
    Stream stream{one.clock, trace, 0, DeviceKind::cpu};
    Gpt model{config, {one.memory, stream}, StageLayers::whole(config), 3, factory_of(mode)};
    trace.drain();
    accumulate_gradients(model, random_batch(config, 1, 1));
    std::vector<int> layers;
    for (const TraceEvent& event : trace.drain())
      if (event.kind == TraceEvent::Kind::span && event.span.category == Category::recompute) {
        layers.push_back(event.span.layer);
        // The span covers the FLOPs of a forward pass, but not those of the backward pass that
        // follows.
        CHECK(event.end - event.start == 24 * 6 * 8 * 8 + 2 * 6 * 6 * 8);
      }
    CHECK(layers == (mode == Recompute::full ? std::vector{2, 1, 0} : std::vector<int>{}));
  }
}

TEST_CASE("Korthikanti's bytes of a block are ours, in 16 bits and with dropout") {
  // The paper's 22B model: h 6144, a 64, s 2048, b 4.
  const GptConfig config{
      .layers = 1, .hidden = 6144, .heads = 64, .sequence = 2048, .vocabulary = 51200};
  const double s = 2048, h = 6144, a = 64, b = 4, N = b * s;
  const auto ours = [&](Recompute mode) {
    return static_cast<double>(recompute_saved_per_block(config, 4, mode)) / 4;  // elements
  };
  const double mean_and_rstd = 4 * N, log_sums = a * N;
  const double masks = 2 * N * h;                      // those of the two residual branches
  const double softmax_dropout = (1 + 2) * a * s * N;  // mask, and dropped-out copy
  CHECK(2 * (ours(Recompute::none) - mean_and_rstd) + masks + softmax_dropout ==
        34 * s * b * h + 5 * a * s * s * b);
  CHECK(2 * (ours(Recompute::selective) - mean_and_rstd - log_sums) + masks == 34 * s * b * h);
  CHECK(2 * ours(Recompute::full) == 2 * s * b * h);
}
