#include <doctest/doctest.h>

#include <numeric>

#include "core/model/adamw.h"
#include "core/model/gpt.h"
#include "core/plan/model_presets.h"
#include "lessons/16_all_axes/prediction.h"
#include "tests/model/fixture.h"

// The presets of published models: parameters by the plan, and FLOPs by the kernels. (Their sizes
// are tested by formula in tests/plan/test_model_presets.cpp.) Also tests one of 16,384 ranks of
// Llama 3 405B.

using namespace lockstep;
using namespace lockstep::test;

namespace {

std::vector<GptConfig> published_models() {
  std::vector<GptConfig> found;
  for (const std::string& name : model_presets())
    if (is_published(name)) found.push_back(model_preset(name));
  return found;
}

/// Returns the FLOPs of one step on one device, as the kernels report them: the modelled time on a
/// clock on which a FLOP takes a picosecond and everything else takes no time.
double flops_of_a_step(const GptConfig& config) {
  OneDevice meta{DeviceKind::meta, flop_clock()};
  Gpt model{config, meta.device(), StageLayers::whole(config), 1};
  const Batch batch = batch_without_tokens({}, config.sequence);
  accumulate_gradients(model, batch);
  return static_cast<double>(meta.stream.now());
}

/// The axes of Llama 3 405B's pre-training with long contexts (Grattafiori 2024, table 4).
Plan long_context_plan(const GptConfig& config) {
  std::array<int, axis_count> sizes{};
  for (const auto& [axis, size] :
       {std::pair{Axis::tp, 8}, {Axis::cp, 16}, {Axis::pp, 16}, {Axis::dp, 8}})
    sizes[static_cast<std::size_t>(axis)] = size;
  Plan plan{{}, Mesh{16384, sizes, "tp,cp,pp,dp"}};
  plan.batch = {.sequences = 8 * 16, .microbatches = 16, .context = ContextLayout::zigzag};
  set_model(plan, config);
  return plan;
}

DryFigures one_rank(const Plan& without_builder, AllAxes chosen) {
  UnreadRoutingLog ignored;
  Plan plan = without_builder;
  chosen.context_ranks = 16;
  set_builder(plan, builder_of(chosen, ignored));
  const int rank = 0;  // of the first stage, which holds most microbatches
  return dry_run_mesh(plan, plan.place(rank), one_f_one_b(16, plan.batch.microbatches), chosen);
}

std::int64_t bytes_along(const DryFigures& figures, const std::string& axis) {
  std::int64_t bytes = 0;
  for (const auto& [rank, each] : figures.sent_to.at(axis)) bytes += each;
  return bytes;
}

}  // namespace

TEST_CASE("eight tensor-parallel ranks hold all parameters of each published model") {
  for (const GptConfig& config : published_models()) {
    Plan plan{{}, Mesh::along(Axis::tp, 8)};
    set_model(plan, config);
    set_builder(plan, std::make_shared<const TensorParallel>());
    std::int64_t held = 0;
    for (int rank = 0; rank < 8; ++rank)
      for (const Held& each : plan.place(rank).held) {
        const bool replicated =
            plan.parameters()[static_cast<std::size_t>(each.parameter)].cuts.empty();
        if (!replicated || rank == 0) held += each.slice.elements();
      }
    CHECK(held == config.parameter_count());
  }
}

TEST_CASE("FLOPs of published models: by formula and by the kernels of a step on the meta device") {
  for (const GptConfig& config : published_models()) {
    const double tokens = config.sequence, s = config.sequence, h = config.hidden;
    // Attention recomputes its scores in the backward pass, s h per token and layer, which model
    // FLOPs do not count.
    const double recomputed = tokens * config.layers * s * h;
    CHECK(flops_of_a_step(config) ==
          doctest::Approx(tokens * config.flops_per_token() + recomputed).epsilon(1e-12));
  }
}

TEST_CASE("Llama 3 405B on 16,384 ranks: the memory of one, and the bytes round its ring") {
  GptConfig config = model_preset("llama3-405b");
  config.sequence = 131072;
  config.dtype = DType::bf16;
  const AllAxes chosen{{.sequence_parallel = true, .zero = 1, .bucket_bytes = 1 << 30},
                       ContextMethod::ring,
                       Recompute::full};
  const DryFigures figures = one_rank(long_context_plan(config), chosen);
  const auto gigabytes = [&](MemoryCategory category) {
    return static_cast<double>(figures.peak.of(category)) * 1e-9;
  };
  MESSAGE("full recomputation, ZeRO-1, GB: parameters ", gigabytes(MemoryCategory::parameters),
          ", gradients ", gigabytes(MemoryCategory::gradients), ", optimizer ",
          gigabytes(MemoryCategory::optimizer), ", activations ",
          gigabytes(MemoryCategory::activations), ", communication ",
          gigabytes(MemoryCategory::communication), "; in all ",
          static_cast<double>(figures.peak.total()) * 1e-9);

  // The first stage holds the token table and 8 of 126 blocks, and a rank holds 1/8 of each.
  const std::int64_t h = 16384, f = 53248, kv = 1024, V = 128256;
  const std::int64_t block = (2 * h * h + 2 * kv * h + 3 * f * h) / 8 + 2 * h;
  const std::int64_t elements = 8 * block + V * h / 8;
  CHECK(figures.peak.of(MemoryCategory::parameters) == 2 * elements);
  CHECK(figures.peak.of(MemoryCategory::gradients) == 2 * elements);
  // Two moments and the master copy, divided among the 128 ranks of dp and cp.
  CHECK(figures.peak.of(MemoryCategory::optimizer) >= 12 * elements / 128);
  CHECK(figures.peak.of(MemoryCategory::optimizer) <= 12 * elements / 128 + 4096 * 12);

  // Without groups, each of the 128 heads of queries has its own keys and values.
  GptConfig without_groups = config;
  without_groups.llama->kv_heads = config.heads;
  const DryFigures ungrouped = one_rank(long_context_plan(without_groups), chosen);
  CHECK(bytes_along(ungrouped, "cp") == 16 * bytes_along(figures, "cp"));
  // Keys and values travel around the ring twice, their gradients once and one hop further, each
  // with 2 c g d / t elements per layer and microbatch; full recomputation sends keys and values a
  // third time.
  const std::int64_t c = 131072 / 16;
  const std::int64_t hop = 2 * c * kv / 8 * 2;
  CHECK(bytes_along(figures, "cp") == 16 * 8 * hop * (3 * 15 + 16));
}
