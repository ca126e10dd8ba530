#include "core/plan/footprint.h"

#include "core/model/adamw.h"
#include "tests/model/fixture.h"

using namespace lockstep;
using namespace lockstep::test;

namespace {

/// One stage of a model that runs alone, with placeholder x and dy.
struct Lone {
  Lone(const GptConfig& config_, const StageLayers& stage_, int batch_)
      : config(config_),
        stage(stage_),
        batch(random_batch(config_, 4, batch_)),
        shape{batch_, config_.sequence, config_.hidden},
        model(config_, one.device(), stage_, 3) {
    one.memory.reset_peak();
  }
  Tensor boundary(bool there) {
    return there ? Tensor{one.memory, shape, MemoryCategory::activations, config.dtype} : Tensor{};
  }
  Tensor forward(int microbatch, Stash& stash) {
    return model.forward(batch.microbatches[static_cast<std::size_t>(microbatch)],
                         boundary(!stage.embedding), stash);
  }

  GptConfig config;
  StageLayers stage;
  OneDevice one{DeviceKind::meta};
  Batch batch;
  Shape shape;
  Gpt model;
};

/// Calls check(config, stage, batch, footprint).
template <class Check>
void for_every_footprint(Check&& check) {
  for_every_kind_of_stage(9, 3, [&](auto& config, auto& stage, int batch) {
    check(config, stage, batch, Footprint{config, stage, batch});
  });
}

}  // namespace

TEST_CASE("a stage's stash matches the closed form, to the byte") {
  for_every_footprint([](auto& config, auto& stage, int batch, const Footprint& footprint) {
    Lone lone{config, stage, batch};
    Stash stash;
    lone.forward(0, stash);
    CHECK(lone.one.activations() == footprint.stash);
    lone.model.backward(lone.boundary(!stage.head), stash);
    CHECK(lone.one.activations() == 0);
    CHECK(stash.empty());
  });
}

TEST_CASE("the peak of k microbatches in flight matches the closed form, to the byte") {
  for_every_footprint([](auto& config, auto& stage, int batch, const Footprint& footprint) {
    for (int k = 1; k <= 4; ++k) {
      CAPTURE(k);
      Lone lone{config, stage, batch};
      std::vector<Stash> stashes(static_cast<std::size_t>(k));
      for (int i = 0; i < k; ++i) {
        lone.forward(i, stashes[static_cast<std::size_t>(i)]);
        CHECK(lone.one.peak_activations() == (i + 1) * footprint.stash + footprint.forward_working);
        CHECK(lone.one.activations() == (i + 1) * footprint.stash);
      }
      for (int i = 0; i < k; ++i) {
        lone.one.memory.reset_peak();
        const int held = k - i;
        lone.model.backward(lone.boundary(!stage.head), stashes[static_cast<std::size_t>(i)]);
        CHECK(lone.one.peak_activations() == held * footprint.stash + footprint.backward_working);
        if (i == 0)
          CHECK(std::max(lone.one.peak_activations(),
                         k * footprint.stash + footprint.forward_working) == footprint.peak(k));
      }
      CHECK(lone.one.activations() == 0);
    }
  });
}

TEST_CASE("parameters, gradients and optimizer: 16 bytes per parameter in every precision") {
  for_every_footprint([](auto& config, auto& stage, int batch, const Footprint& footprint) {
    Lone lone{config, stage, batch};
    const AdamW optimizer{lone.model.parameters(), lone.one.device()};
    const MemoryUse& use = lone.one.memory.current();
    CHECK(use.of(MemoryCategory::parameters) == footprint.parameters);
    CHECK(use.of(MemoryCategory::gradients) == footprint.gradients);
    CHECK(use.of(MemoryCategory::optimizer) == footprint.optimizer);
    if (stage.embedding && stage.head) {
      CHECK(footprint.parameters ==
            static_cast<std::int64_t>(size_of(config.dtype)) * config.parameter_count());
      if (!config.tied) CHECK(use.total() == 16 * config.parameter_count());
    }
  });
}
