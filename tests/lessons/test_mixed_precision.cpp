#include "lessons/14_mixed_precision/experiment/lost_gradients.h"

#include <mutex>
#include <random>

#include "core/run/reference/parity.h"
#include "lessons/02_data_parallel/data_parallel.h"
#include "lessons/14_mixed_precision/experiment/model_states.h"
#include "lessons/14_mixed_precision/scaling_flags.h"
#include "tests/model/fixture.h"
#include "tests/support/ranks.h"

using namespace lockstep;
using namespace lockstep::test;
using lockstep::testing::modelled_options;
using lockstep::testing::on_threads;

namespace {

GptConfig small(DType dtype) {
  GptConfig config{.layers = 3, .hidden = 24, .heads = 3, .sequence = 10, .vocabulary = 256};
  config.dtype = dtype;
  return config;
}

struct OneModel {
  OneModel(DType dtype, float rate = 3e-3F, bool masters = true)
      : model(small(dtype), one.device(), StageLayers::whole(small(dtype)), 5),
        optimizer(model.parameters(), one.device(), {.learning_rate = rate, .masters = masters}) {}
  /// Runs one training step, as the lesson's main() does.
  bool step(int number, LossScaler& scaler, float larger = 1) {
    model.zero_gradients();
    const Batch batch = random_batch(model.config(), 1, 3, number);
    accumulate_gradients(model, scaled(batch, scaler.scale() * larger));
    const float unscale = scaler.unscale();
    if (!scaler.take(number, optimizer.finite())) return false;
    optimizer.step(unscale);
    return true;
  }
  std::vector<Floats> everything() const {
    std::vector<Floats> all;
    for (const auto& each : optimizer.moments())
      for (const View& view :
           {each.parameter->value, each.parameter->master, each.momentum, each.variance})
        all.push_back(floats(view));
    return all;
  }
  OneDevice one;
  Gpt model;
  AdamW optimizer;
};

}  // namespace

TEST_CASE("the loss scale halves with every overflow and doubles after a run of good steps") {
  std::mt19937 random{4};
  for (int trial = 0; trial < 50; ++trial) {
    const int interval = 1 + static_cast<int>(random() % 5);
    LossScaler scaler{65536, interval};
    // Computes the expected scale from the history: each overflow halves it, and each complete
    // interval of consecutive good steps doubles it.
    std::vector<bool> history;
    std::size_t changes = 0;
    for (int step = 0; step < 60; ++step) {
      const bool finite = random() % 4 != 0;
      history.push_back(finite);
      CHECK(scaler.take(step, finite) == finite);
      double want = 65536;
      int run = 0;
      changes = 0;
      for (const bool good : history) {
        run = good ? run + 1 : 0;
        if (!good || run % interval == 0) ++changes;
        if (!good) want /= 2;
        if (good && run % interval == 0) want *= 2;
      }
      CHECK(static_cast<double>(scaler.scale()) == want);
      CHECK(scaler.scale() * scaler.unscale() == 1);
      if (want <= 4 * LossScaler::least) break;
    }
    CHECK(scaler.changes().size() == changes);
    for (const auto& change : scaler.changes())
      CHECK((change.to < change.from) == !history[static_cast<std::size_t>(change.step)]);
  }
}

TEST_CASE("gradients that overflow at any scale are not rescaled forever") {
  LossScaler scaler{1, 100};
  const auto overflow = [&] {
    for (int step = 0; step < 100; ++step) scaler.take(step, false);
  };
  CHECK_THROWS_WITH_AS(overflow(), doctest::Contains("so the scale is not the cause"), RunError);
}

TEST_CASE("scaling the loss by 2^k scales the gradients by exactly 2^k") {
  OneModel one{DType::f32}, two{DType::f32};
  const Batch batch = random_batch(small(DType::f32), 2, 3);
  const double loss = accumulate_gradients(one.model, batch);
  CHECK(accumulate_gradients(two.model, scaled(batch, 1024)) == 1024 * loss);
  for (std::size_t i = 0; i < one.model.parameters().size(); ++i) {
    Floats want = floats(one.model.parameters()[i]->gradient);
    for (float& each : want) each *= 1024;
    CHECK(same_bits(floats(two.model.parameters()[i]->gradient), want));
  }
}

TEST_CASE("an overflow costs one step: nothing is updated, and training goes on") {
  OneModel one{DType::f16};
  LossScaler scaler{65536, 2000};
  for (int step = 0; step < 3; ++step) CHECK(one.step(step, scaler));
  const auto before = one.everything();
  CHECK_FALSE(one.step(3, scaler, outlier));
  CHECK(scaler.scale() == 32768);
  const auto after = one.everything();
  for (std::size_t i = 0; i < before.size(); ++i) CHECK(same_bits(before[i], after[i]));
  CHECK(one.optimizer.steps() == 3);
  CHECK(one.step(4, scaler));
  CHECK(one.optimizer.finite());
  // Without the check, the weights would be corrupted permanently.
  one.model.zero_gradients();
  accumulate_gradients(one.model,
                       scaled(random_batch(small(DType::f16), 1, 3, 5), 65536 * outlier));
  one.optimizer.step(1);
  bool lost = false;
  for (const Parameter* parameter : one.model.parameters())
    for (const float value : parameter->f32_values(one.model.device()))
      lost = lost || !std::isfinite(value);
  CHECK(lost);
}

TEST_CASE("f16 loses small gradients, and loss scaling recovers them") {
  OneModel one{DType::f32};
  const Batch batch = random_batch(small(DType::f32), 1, 3);
  const auto weights = one.model.parameters();
  const auto f32 =
      Probe{small(DType::f32), DType::f32, one.model.device(), weights}.gradients(batch);
  const auto lost = [&](DType dtype, double scale) {
    return lost_gradients(f32,
                          Probe{small(dtype), dtype, one.model.device(), weights}.gradients(
                              scaled(batch, static_cast<float>(scale))),
                          scale);
  };
  const Lost small_loss = lost(DType::f16, 0x1p-12), scaled_up = lost(DType::f16, 1024);
  CHECK(small_loss.to_zero > 0.1);
  CHECK(small_loss.error > 0.1);
  CHECK(scaled_up.to_zero < 0.01 * small_loss.to_zero);
  CHECK(scaled_up.error < 0.01);
  CHECK(lost(DType::f16, 0x1p40).to_infinity > 0.5);
  // bf16 has f32's range, so the scale makes no difference.
  CHECK(lost(DType::bf16, 0x1p-12).error == lost(DType::bf16, 1).error);
  CHECK(lost(DType::bf16, 1).to_zero < 1e-3);
  CHECK(lost(DType::f32, 1).error == 0);
}

TEST_CASE("the 16 bytes of a parameter: 4 + 4 + 8, or 2 + 2 + 12") {
  std::mt19937 random{8};
  for (int trial = 0; trial < 10; ++trial) {
    GptConfig config = random_config(random);
    config.tied = false;
    const std::int64_t n = config.parameter_count();
    for (const DType dtype : {DType::f32, DType::bf16, DType::f16}) {
      const bool wide = dtype == DType::f32;
      const MemoryUse use = counted_states(config, dtype, 2);
      CHECK(use.of(MemoryCategory::parameters) == (wide ? 4 : 2) * n);
      CHECK(use.of(MemoryCategory::gradients) == (wide ? 4 : 2) * n);
      CHECK(use.of(MemoryCategory::optimizer) == (wide ? 8 : 12) * n);
      CHECK(use.total() - use.of(MemoryCategory::activations) == 16 * n);
    }
  }
}

TEST_CASE(
    "data parallelism in 16-bit types: reproducible bits on all ranks, with every GradientSync") {
  for (const DType dtype : {DType::bf16, DType::f16}) {
    for (const int ranks : {1, 2, 3}) {
      const auto train = [&](GradientSync overlap) {
        std::mutex mutex;
        std::vector<std::vector<Floats>> values(static_cast<std::size_t>(ranks));
        const std::string failure = on_threads(modelled_options(ranks), [&](Rank& rank) {
          Gpt model{small(dtype), rank.device, StageLayers::whole(small(dtype)), 5};
          AdamW optimizer{model.parameters(), rank.device, {}};
          DataParallel replicas{model, rank.world, 1};
          replicas.set(overlap);
          LossScaler scaler{first_scale(0, dtype), 2};
          for (int step = 0; step < 4; ++step) {
            const Batch mine = random_batch(small(dtype), 2, 1 + rank.id, step);
            model.zero_gradients();
            accumulate_gradients(model, scaled(mine, scaler.scale()));
            replicas.sum_gradients();
            const float unscale = scaler.unscale();
            if (scaler.take(step, optimizer.finite())) optimizer.step(unscale);
          }
          std::lock_guard lock{mutex};
          for (const Parameter* parameter : model.parameters())
            values[static_cast<std::size_t>(rank.id)].push_back(parameter->f32_values(rank.device));
        });
        CHECK(failure == "");
        return values;
      };
      const auto first = train(GradientSync::overlap);
      for (const auto& of_rank : first) CHECK(of_rank == first.front());
      CHECK(train(GradientSync::overlap) == first);
      CHECK(train(GradientSync::bucket) == first);
    }
  }
}

TEST_CASE("bf16 with f32 masters learns like f32; without masters it falls behind") {
  // Uses small steps: near a weight of 0.02, adjacent bf16 numbers are 0.00012 apart.
  const float rate = 3e-5F;
  const auto trained = [&](DType dtype, bool masters) {
    OneModel one{dtype, rate, masters};
    double loss = 0;
    const Batch batch = random_batch(small(dtype), 1, 4);
    for (int step = 0; step < 400; ++step) {
      one.model.zero_gradients();
      loss = accumulate_gradients(one.model, batch);
      one.optimizer.step(1);
    }
    return loss;
  };
  const double f32 = trained(DType::f32, true), bf16 = trained(DType::bf16, true);
  const double without = trained(DType::bf16, false);
  MESSAGE("f32 " << f32 << ", bf16 " << bf16 << ", without masters " << without);
  CHECK(std::abs(bf16 / f32 - 1) < 0.01);
  CHECK(without > 1.02 * f32);
}

TEST_CASE("a run as good as one device's is distinguished from one that is not") {
  const auto parity_of = [](std::vector<double> losses) {
    return compare(losses, {}, Reference{std::vector<double>(20, 2.0), {}});
  };
  std::vector<double> losses(20, 2.0);
  losses[3] = 3;  // a difference before the last steps
  losses[18] = 2.03;
  losses[19] = 2.0;
  const Tolerance tolerance{.final_loss = 0.01};
  CHECK(parity_of(losses).within(tolerance));
  CHECK_FALSE(parity_of(losses).within(Tolerance{.loss = 0.01, .parameter = 1}));
  losses[19] = 2.03;
  CHECK_FALSE(parity_of(losses).within(tolerance));
  losses[19] = std::nan("");
  CHECK_FALSE(parity_of(losses).within(tolerance));
}

TEST_CASE("impossible loss scaling flags give one clear line") {
  Options options;
  options.run.steps = 10;
  set_model(options.plan, &GptConfig::dtype, DType::f16);
  const auto said = [&](double scale, int interval, int overflow_at) {
    return usage_error([&] { check_scaling(options, scale, interval, overflow_at); });
  };
  CHECK(contains(said(1000, 1, -1), "--scale 1000: must be a power of two"));
  CHECK(contains(said(0.5, 1, -1), "--scale 0.5: must be"));
  CHECK(contains(said(0, 0, -1), "--growth-interval 0: must be"));
  CHECK(said(0, 1, 10) == "--overflow-at 10: steps are 0 to 9");
  CHECK(contains(said(1, 1, 3), "--overflow-at 3: needs f16 and a loss scale above 1"));
  set_model(options.plan, &GptConfig::dtype, DType::bf16);
  CHECK(contains(said(0, 1, 3), "use --precision f16"));
  CHECK_NOTHROW(check_scaling(options, 0, 1, -1));
}
