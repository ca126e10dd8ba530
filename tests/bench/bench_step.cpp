// Measures a whole training step on one thread: its share of the processor's peak, its speed
// compared with PyTorch's step in the same run (if `python3` has PyTorch), and each kernel's share
// of its time. All times are CPU times of the thread, so other processes on the machine hardly
// affect them.

#include <fmt/format.h>

#include <map>

#include "core/model/adamw.h"
#include "core/model/data.h"
#include "core/model/gpt.h"
#include "tests/bench/processor.h"
#include "tests/bench/products.h"
#include "tests/bench/side_by_side.h"
#include "tests/bench/torch_step.h"
#include "tests/support/ranks.h"

using namespace lockstep;
using namespace lockstep::bench;

namespace {

constexpr int batch_size = 8;

GptConfig model_of(int hidden, DType dtype) {
  return {.layers = 4,
          .hidden = hidden,
          .heads = std::max(4, hidden / 64),
          .sequence = 256,
          .vocabulary = 256,
          .dtype = dtype};
}

std::string some_text() {
  std::string text;
  for (int i = 0; i < 2000; ++i) text += fmt::format("{} is not {}. ", i * i % 97, i);
  return text;
}

/// Trains a model, one step per call.
class Training {
 public:
  Training(Rank& rank, const GptConfig& config)
      : rank_(rank),
        model_(config, rank.device, StageLayers::whole(config), 1),
        optimizer_(model_.parameters(), rank.device),
        batch_(Corpus{some_text(), config}.batch(1, 0, {.microbatches = 1, .size = batch_size})) {}

  void step() {
    model_.zero_gradients();
    accumulate_gradients(model_, batch_);
    optimizer_.step();
  }

  /// Returns each kernel's share of a step's time, by kernel name.
  std::map<std::string, double> shares(int steps) {
    Recorder& trace = rank_.trace;
    trace.drain();
    trace.set_kernels(true);
    const double whole = seconds_of([&] {
      for (int i = 0; i < steps; ++i) step();
    });
    trace.set_kernels(false);
    std::map<std::string, double> shares;
    for (const TraceEvent& event : trace.drain())
      if (event.kind == TraceEvent::Kind::span && event.span.category == Category::kernel)
        shares[event.span.name] += seconds(event.end - event.start) / whole;
    return shares;
  }

 private:
  Rank& rank_;
  Gpt model_;
  AdamW optimizer_;
  Batch batch_;
};

void with_training(benchmark::State& state, const GptConfig& config,
                   const std::function<void(Training&)>& body) {
  Options options;
  const std::string wrong = testing::on_threads(options, [&](Rank& rank) {
    Training training{rank, config};
    body(training);
  });
  if (!wrong.empty()) state.SkipWithError(wrong.c_str());
}

std::string where() {
  return fmt::format("{}, {}", processor_model(), cpu_kernels_library());
}

/// Reports the rate of the linear layers' products alone, as a share of the peak.
void products(benchmark::State& state, int hidden, DType dtype) {
  const double peak = peak_flops(dtype);
  LinearProducts work{model_of(hidden, dtype), batch_size};
  work.multiply();
  std::vector<double> rates;
  for (int i = 0; i < 9; ++i)
    rates.push_back(work.flops() / thread_seconds_of([&] { work.multiply(); }));
  if (peak > 0) state.counters["value"] = median(rates) / peak;
  state.counters["gflops_per_s"] = 1e-9 * median(rates);
  state.counters["peak_gflops_per_s"] = 1e-9 * peak;
  state.SetLabel("share of the peak in linear layers' products; " + where());
}

/// Reports a step's useful FLOP/s as a share of the peak, and its speed relative to PyTorch's.
void training_step(benchmark::State& state, int hidden, DType dtype) {
  const GptConfig config = model_of(hidden, dtype);
  with_training(state, config, [&](Training& training) {
    const double peak = peak_flops(dtype);
    const auto ours = [&] { return thread_seconds_of([&] { training.step(); }); };
    std::vector<double> alone;
    for (int i = 0; i < 3; ++i) training.step();
    for (int i = 0; i < 9; ++i) alone.push_back(ours());
    const double rate = product_flops(config, batch_size) / median(alone);
    state.counters["gflops_per_s"] = 1e-9 * rate;
    state.counters["peak_gflops_per_s"] = 1e-9 * peak;
    if (peak > 0) state.counters["share_of_peak"] = rate / peak;
    state.counters["ours_ms"] = 1e3 * median(alone);
    std::string version;
    for (const bool compiled : {true, false}) {
      const auto torch = TorchStep::start(config, batch_size, compiled);
      if (!torch) continue;
      version = ", PyTorch " + torch->version();
      const SideBySide sides = take_turns(9, ours, [&] { return torch->step(); });
      const std::string way = compiled ? "compiled" : "eager";
      state.counters["torch_" + way + "_ms"] = 1e3 * sides.other();
      state.counters["speed_over_" + way] = median(sides.speeds());
      if (!compiled) report(state, sides, 1.0, "");  // the figure in the table
    }
    if (version.empty() && peak > 0) state.counters["value"] = rate / peak;
    state.SetLabel((version.empty()
                        ? "share of the peak in a training step (no PyTorch for python3 here); "
                        : "speed of a training step over PyTorch's, eager; ") +
                   where() + version);
  });
}

void where_it_goes(benchmark::State& state, DType dtype) {
  with_training(state, model_of(256, dtype), [&](Training& training) {
    training.step();
    double products = 0;
    for (const auto& [name, share] : training.shares(10)) {
      state.counters[name] = share;
      if (name.starts_with("linear")) products += share;
    }
    state.counters["value"] = products;
    state.SetLabel("share of a training step's time in linear layers, and in each kernel");
  });
}

[[maybe_unused]] const bool registered = [] {
  for (const DType dtype : {DType::f32, DType::bf16}) {
    const std::string type = name_of(dtype);
    for (const int hidden : {64, 256, 512}) {
      const std::string size = fmt::format("h{}_{}", hidden, type);
      add("products_" + size, [=](benchmark::State& state) { products(state, hidden, dtype); });
      add("training_step_" + size,
          [=](benchmark::State& state) { training_step(state, hidden, dtype); });
    }
    add("training_step_shares_" + type,
        [=](benchmark::State& state) { where_it_goes(state, dtype); });
  }
  return true;
}();

}  // namespace
