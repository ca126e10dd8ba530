#include "core/model/adamw.h"
#include "core/model/checkpoint/checkpoint.h"
#include "core/model/flat_buffer.h"
#include "tests/model/fixture.h"
#include "tests/support/complaints.h"
#include "tests/support/whole_checkpoint.h"

// Tests checkpoints that contain the optimizer's moments.

using namespace lockstep;
using namespace lockstep::test;
using lockstep::testing::complaint_of;
using lockstep::testing::OptimizerState;
using lockstep::testing::save_whole;
using lockstep::testing::unlike;

namespace {

GptConfig tiny() {
  return {.layers = 2, .hidden = 8, .heads = 2, .sequence = 6, .vocabulary = 20, .frozen = {1}};
}

/// A model after three training steps.
struct Trained {
  explicit Trained(const GptConfig& config) : gpt(config, one.device(), whole(config), 1) {
    const Batch batch = random_batch(config, 1, 2);
    for (int step = 0; step < 3; ++step) {
      gpt.zero_gradients();
      accumulate_gradients(gpt, batch);
      optimizer.step();
    }
  }
  static StageLayers whole(const GptConfig& config) { return StageLayers::whole(config); }
  void save(const std::string& folder) const {
    OptimizerState state{.moments = {}, .steps = optimizer.steps()};
    for (const auto& [parameter, momentum, variance] : optimizer.moments()) {
      state.moments.push_back({parameter->name + ".momentum", floats(momentum)});
      state.moments.push_back({parameter->name + ".variance", floats(variance)});
    }
    save_whole(folder, gpt.config(), gpt.device(), gpt.parameters(), state);
  }

  OneDevice one;
  Gpt gpt;
  AdamW optimizer{gpt.parameters(), one.device()};
};

std::string complaint(const std::string& folder, const GptConfig& config) {
  return complaint_of<UsageError>([&] { trained_steps(folder, config); });
}

}  // namespace

TEST_CASE("moments are restored bit for bit, for whole parameters and for a rank's parts") {
  const TemporaryFolder folder;
  const GptConfig config = tiny();
  Trained trained{config};
  trained.save(folder / "run");
  CHECK(trained_steps(folder / "run", config) == 3);
  const auto all = trained.optimizer.moments();
  for (const int shards : {1, 2, 3}) {
    std::int64_t elements = 0;
    for (int rank = 0; rank < shards; ++rank) {
      OneDevice one;
      Gpt bare{config, one.device(), StageLayers::whole(config), 1, {}, Storage::none};
      const FlatLayout layout{bare.stored_units(), shards, 1};
      std::vector<Tensor> values;
      std::deque<Parameter> parts;
      std::vector<Parameter*> pointers;
      for (const FlatLayout::Bucket& bucket : layout.buckets()) {
        values.push_back(zeros(one.device(), bucket.elements / shards, MemoryCategory::parameters));
        for (Parameter& part : parts_of_shard(bare, layout, bucket, rank, values.back(), {}))
          pointers.push_back(&parts.emplace_back(std::move(part)));
      }
      AdamW optimizer{pointers, one.device()};
      load_moments(folder / "run", optimizer);
      CHECK(optimizer.steps() == 3);
      for (const auto& part : optimizer.moments()) {
        const auto whole = std::ranges::find_if(all, [&](const AdamW::Moments& each) {
          return each.parameter->name == part.parameter->name;
        });
        REQUIRE(whole != all.end());
        const auto same = [&](View mine, View of_whole) {
          const View flat = of_whole.reshaped({of_whole.elements()});
          for (const auto& [in_whole, in_local, n] : part.parameter->slice.runs())
            CHECK(same_bits(floats(mine.columns(in_local, n)), floats(flat.columns(in_whole, n))));
        };
        same(part.momentum, whole->momentum);
        same(part.variance, whole->variance);
        elements += part.momentum.elements();
      }
    }
    CHECK(elements == config.trained_count());
  }
}

TEST_CASE("a checkpoint without optimizer state has no steps, and leaves the optimizer unchanged") {
  const TemporaryFolder folder;
  Trained trained{tiny()};
  save_whole(folder / "alone", trained.gpt.config(), trained.gpt.device(),
             trained.gpt.parameters());
  CHECK_FALSE(trained_steps(folder / "alone", tiny()));
  trained.save(folder / "run");
  CHECK_FALSE(trained_steps(folder / "run/model.safetensors", tiny()));
  load_moments(folder / "alone", trained.optimizer);
  CHECK(trained.optimizer.steps() == 3);
}

TEST_CASE("moments of parameters other than the trained ones are rejected by name") {
  const TemporaryFolder folder;
  Trained{tiny()}.save(folder / "run");
  GptConfig more = tiny();
  more.frozen = {};
  CHECK(unlike(complaint(folder / "run", more), {"--load", "transformer.h.0.", "--freeze"}) == "");
  GptConfig less = tiny();
  less.frozen = {1, 2};
  CHECK(unlike(complaint(folder / "run", less), {"--load", "other parameters", "--freeze"}) == "");
  GptConfig wider = tiny();
  wider.hidden = 12;
  CHECK(unlike(complaint(folder / "run", wider), {"--load", "transformer.wte.weight", "240"}) ==
        "");
}
