// Measures a training step of GPT-2 on one GPU with the lessons' model and optimizer: the forward
// and backward passes, the gradient norm and AdamW. Each output line is one figure: name, value,
// unit and detail, separated by tabs.
//
//   bench_training [--layers 12 --hidden 768 --heads 12 --sequence 1024 --vocab 50257] [--batch 32]
//                  [--precision bf16|f32] [--steps 20]
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <random>

#include "core/base/error.h"
#include "core/model/adamw.h"
#include "core/model/data.h"
#include "core/model/gpt.h"
#include "core/run/report/solo_device.h"
#include "tests/gpu/bench/timing.h"

using namespace lockstep;

namespace {

constexpr int warm_up_steps = 3;

/// Random tokens and random targets from the whole vocabulary.
Batch random_batch(const GptConfig& config, int size) {
  std::mt19937 engine{1};
  std::uniform_int_distribution<std::int32_t> token{0, config.vocabulary - 1};
  Batch batch;
  const auto count = static_cast<std::size_t>(size) * static_cast<std::size_t>(config.sequence);
  for (auto* each : {&batch.tokens, &batch.targets})
    for (std::size_t i = 0; i < count; ++i) each->push_back(token(engine));
  const Shape shape{size, config.sequence};
  batch.microbatches.push_back({.tokens = {batch.tokens.data(), shape, DType::i32},
                                .targets = {batch.targets.data(), shape, DType::i32},
                                .loss_scale = 1.0F / static_cast<float>(count),
                                .last = true});
  return batch;
}

/// Returns the FLOPs of a step without recomputation, 72 B L s h² (1 + s/(6h) + V/(12 h L))
/// (Narayanan 2021). Attention is counted in full.
double step_flops(const GptConfig& config, int batch) {
  const double B = batch, L = config.layers, s = config.sequence, h = config.hidden,
               V = config.vocabulary;
  return 72 * B * L * s * h * h * (1 + s / (6 * h) + V / (12 * h * L));
}

/// Returns the seconds of each step after the warm-up, from the start of a step on the GPU to the
/// start of the next.
std::vector<double> train(const GptConfig& config, int size, int steps, double& loss,
                          std::int64_t& in_use) {
  SoloDevice one{true};
  const Device device = one;
  Gpt model{config, device, StageLayers::whole(config), 1};
  AdamW optimizer{model.parameters(), device};
  Batch batch = random_batch(config, size);
  move_to(device, batch);
  std::vector<MarkPtr> marks;
  for (int step = 0; step < warm_up_steps + steps + 1; ++step) {
    marks.push_back(one.gpu->record(one.compute.queue()));
    model.zero_gradients();
    loss = accumulate_gradients(model, batch);
    optimizer.step();
  }
  while (!one.gpu->passed(*marks.back())) std::this_thread::yield();
  in_use = one.gpu->memory_in_use();
  std::vector<double> seconds;
  for (std::size_t i = warm_up_steps; i + 1 < marks.size(); ++i)
    seconds.push_back(one.gpu->milliseconds(*marks[i], *marks[i + 1]) * 1e-3);
  return seconds;
}

}  // namespace

int main(int argc, char** argv) {
  GptConfig config{.layers = 12,
                   .hidden = 768,
                   .heads = 12,
                   .sequence = 1024,
                   .vocabulary = 50257,
                   .tied = true};
  int batch = 32, steps = 20;
  std::string precision = "bf16";
  CLI::App app{"A training step of GPT-2 on one GPU."};
  app.add_option("--layers", config.layers);
  app.add_option("--hidden", config.hidden);
  app.add_option("--heads", config.heads);
  app.add_option("--sequence", config.sequence);
  app.add_option("--vocab", config.vocabulary);
  app.add_option("--batch", batch, "sequences a step")->check(CLI::PositiveNumber);
  app.add_option("--steps", steps, "of which the median is taken")->check(CLI::PositiveNumber);
  app.add_option("--precision", precision)->check(CLI::IsMember({"bf16", "f32"}));
  CLI11_PARSE(app, argc, argv);
  try {
    config.dtype = precision == "bf16" ? DType::bf16 : DType::f32;
    config.validate();
    double loss = 0;
    std::int64_t in_use = 0;
    std::vector<double> seconds = train(config, batch, steps, loss, in_use);
    std::sort(seconds.begin(), seconds.end());
    const double median = seconds[seconds.size() / 2];
    const std::string model =
        fmt::format("GPT-2 {:.0f}M, V {}, {}", static_cast<double>(config.parameter_count()) / 1e6,
                    config.vocabulary, precision);
    print(
        {model, batch * config.sequence / median, "tokens/s",
         fmt::format("b {}, s {}, {:.2f} ms a step ({:.2f} to {:.2f}), {} MiB in use, loss {:.3f}",
                     batch, config.sequence, median * 1e3, seconds.front() * 1e3,
                     seconds.back() * 1e3, in_use >> 20, loss)});
    print({model + ", model FLOPs", step_flops(config, batch) / median / 1e12, "TFLOP/s",
           "attention counted in full"});
    return 0;
  } catch (const UsageError& error) {
    fmt::print(stderr, "bench_training: {}\n", error.what());
    return 2;
  } catch (const std::exception& error) {
    fmt::print(stderr, "bench_training: {}\n", error.what());
    return 1;
  }
}
