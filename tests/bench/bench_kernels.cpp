// Compares a whole training step on one thread with cblas_sgemm alone on the step's matrix
// products, and breaks the step's time down by kernel.
//
// Only the FLOPs of matrix products are counted, 2 m n k for each product. Every linear layer has
// three products (one in the forward pass; in the backward pass, one for the input and one for the
// weight). Attention has six (two in the forward pass and four in the backward pass, not counting
// the recomputed scores). Attention is counted in full, T x T, on both sides. `causal_half` counts
// half of attention's FLOPs for the step, but all of them for sgemm, which computes all of them.

#include <cblas.h>
#include <fmt/format.h>

#include <map>

#include "core/model/adamw.h"
#include "core/model/data.h"
#include "core/model/gpt.h"
#include "tests/bench/side_by_side.h"
#include "tests/support/ranks.h"

using namespace lockstep;
using namespace lockstep::bench;

namespace {

constexpr GptConfig config{
    .layers = 4, .hidden = 256, .heads = 4, .sequence = 256, .vocabulary = 256};
constexpr int batch_size = 8;

/// The matrix products of one step, computed by cblas_sgemm on separate data.
class Products {
 public:
  Products() {
    const int n = batch_size * config.sequence;
    const int h = config.hidden;
    for (int layer = 0; layer < config.layers; ++layer) {
      for (const auto& [in, out] : {std::pair{h, 3 * h}, {h, h}, {h, 4 * h}, {4 * h, h}})
        linear(n, in, out, CblasNoTrans);
      for (int i = 0; i < batch_size * config.heads; ++i)
        attention(config.sequence, h / config.heads);
    }
    linear(n, h, config.vocabulary, CblasTrans);  // the head's weight is (out, in)
  }

  double flops() const { return linear_flops_ + attention_flops_; }
  double flops_causal_half() const { return linear_flops_ + attention_flops_ / 2; }

  void multiply() {
    for (const Product& p : products_)
      cblas_sgemm(CblasRowMajor, p.transpose_a, p.transpose_b, p.m, p.n, p.k, 1.0F, a_.data(),
                  p.transpose_a == CblasTrans ? p.m : p.k, b_.data(),
                  p.transpose_b == CblasTrans ? p.k : p.n, 0.0F, c_.data(), p.n);
  }

 private:
  struct Product {
    int m, n, k;
    CBLAS_TRANSPOSE transpose_a, transpose_b;
  };

  /// y = x w, dx = dy wᵀ, dw = xᵀ dy.
  void linear(int rows, int in, int out, CBLAS_TRANSPOSE weight) {
    const CBLAS_TRANSPOSE other = weight == CblasTrans ? CblasNoTrans : CblasTrans;
    linear_flops_ += add({rows, out, in, CblasNoTrans, weight});
    linear_flops_ += add({rows, in, out, CblasNoTrans, other});
    linear_flops_ += weight == CblasTrans ? add({out, in, rows, CblasTrans, CblasNoTrans})
                                          : add({in, out, rows, CblasTrans, CblasNoTrans});
  }
  /// q kᵀ and p v; dy vᵀ, pᵀ dy, ds k and dsᵀ q.
  void attention(int s, int d) {
    for (int i = 0; i < 2; ++i) {
      attention_flops_ += add({s, s, d, CblasNoTrans, CblasTrans});
      attention_flops_ += add({s, d, s, CblasNoTrans, CblasNoTrans});
      attention_flops_ += add({s, d, s, CblasTrans, CblasNoTrans});
    }
  }
  double add(Product p) {
    products_.push_back(p);
    const auto grow = [](std::vector<float>& data, int rows, int columns) {
      data.resize(
          std::max(data.size(), static_cast<std::size_t>(rows) * static_cast<std::size_t>(columns)),
          0.01F);
    };
    grow(a_, p.m, p.k);
    grow(b_, p.k, p.n);
    grow(c_, p.m, p.n);
    return 2.0 * p.m * p.n * p.k;
  }

  std::vector<Product> products_;
  std::vector<float> a_, b_, c_;
  double linear_flops_ = 0;
  double attention_flops_ = 0;
};

std::string some_text() {
  std::string text;
  for (int i = 0; i < 2000; ++i) text += fmt::format("{} is not {}. ", i * i % 97, i);
  return text;
}

/// Trains a model, one step per call.
class Training {
 public:
  explicit Training(Rank& rank)
      : rank_(rank),
        model_(config, rank.device, StageLayers::whole(config), 1),
        optimizer_(model_.parameters(), rank.device) {}

  void step() {
    model_.zero_gradients();
    accumulate_gradients(model_, batch_);
    optimizer_.step();
  }

  /// Returns each kernel's share of a step, by name.
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
  Batch batch_ = Corpus{some_text(), config}.batch(1, 0, {.microbatches = 1, .size = batch_size});
};

void with_training(benchmark::State& state, const std::function<void(Training&)>& body) {
  Options options;
  options.run.ranks = 1;
  const std::string wrong = testing::on_threads(options, [&](Rank& rank) {
    Training training{rank};
    body(training);
  });
  if (!wrong.empty()) state.SkipWithError(wrong.c_str());
}

void training_step(benchmark::State& state) {
  with_training(state, [&](Training& training) {
    Products products;
    const SideBySide sides = take_turns(
        15, [&] { return seconds_of([&] { training.step(); }); },
        [&] { return seconds_of([&] { products.multiply(); }); });
    report(state, sides, 0.60,
           "FLOP rate of a training step over cblas_sgemm's, attention in full");
    state.counters["causal_half"] =
        median(sides.speeds()) * products.flops_causal_half() / products.flops();
    state.counters["gflops_per_s"] = 1e-9 * products.flops() / sides.ours();
    state.counters["sgemm_gflops_per_s"] = 1e-9 * products.flops() / sides.other();
  });
}

void where_it_goes(benchmark::State& state) {
  with_training(state, [&](Training& training) {
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
  add("training_step", training_step);
  add("training_step_shares", where_it_goes);
  return true;
}();

}  // namespace
