#include <doctest/doctest.h>
#include <fmt/format.h>

#include <chrono>

#include "core/pipeline/pipeline_prediction.h"
#include "lessons/05_zero_3/prediction.h"
#include "lessons/09_1f1b/one_f_one_b.h"
#include "tests/support/bytes.h"

using namespace lockstep;
using namespace lockstep::testing;

namespace {

double seconds_of(const auto& work) {
  const auto begin = std::chrono::steady_clock::now();
  work();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
}

GptConfig gpt_3() {
  GptConfig config{
      .layers = 96, .hidden = 12288, .heads = 96, .sequence = 2048, .vocabulary = 50257};
  config.dtype = DType::bf16;
  return config;
}

Plan plan_of_1024(int dp, int pp) {
  Plan plan{gpt_3(), Mesh{1024, {1, 1, dp, pp}}};
  plan.modelled = {Cluster::load("a100")};
  plan.modelled->cluster.shared.reset();  // for the simulated bubble
  plan.optimizer.clip = 0;
  plan.batch = {.sequences = 1024, .microbatches = 1};
  return plan;
}

}  // namespace

// Prints the time, but does not check it, because the machine may be busy.
TEST_CASE("1,024 ranks are predicted without running any") {
  const Plan sharded = plan_of_1024(1024, 1);
  std::int64_t states = 0, sent = 0;
  const double zero = seconds_of([&] {
    for (int rank = 0; rank < 1024; ++rank) {
      const Predicted predicted = predict_zero_3(sharded, sharded.place(rank), 50'000, 1);
      states += *predicted.peak_bytes[MemoryCategory::optimizer];
      sent = total(bytes_of(predicted));
    }
  });
  // All ranks together hold three f32 values per parameter. Each rank sends 3Ψ(N-1)/N elements of
  // 16 bits, plus padding.
  const std::int64_t psi = sharded.model().parameter_count();
  CHECK(states == 12 * psi);
  CHECK(sent >= 2 * 3 * psi / 1024 * 1023);
  CHECK(static_cast<double>(sent) < 1.001 * 6.0 * static_cast<double>(psi));

  Plan deep = plan_of_1024(32, 32);
  deep.batch.microbatches = 32;
  std::int64_t parameters = 0;
  double bubble = 0;
  const double pipeline = seconds_of([&] {
    const PipelinePrediction prediction{deep, one_f_one_b(32, 32)};
    for (int rank = 0; rank < 1024; ++rank) {
      const Predicted predicted = prediction.of(deep.place(rank));
      parameters += *predicted.peak_bytes[MemoryCategory::parameters];
      bubble = *predicted.bubble_simulated;
    }
  });
  CHECK(parameters == 32 * 2 * psi);
  CHECK(bubble > 31.0 / 63);
  MESSAGE(
      fmt::format("1,024 ranks predicted: ZeRO-3 {:.2f} s, 32 x 32 1F1B {:.2f} s", zero, pipeline));
}
