#pragma once

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <string>
#include <vector>

#include "tests/gpu/bench/shapes.h"
#include "tests/gpu/bench/timing.h"

namespace lockstep {

/// Measures kernels that compute: the model's products and attention, as fractions of cuBLAS's rate
/// for a large product in the same run.
class Products {
 public:
  Products(Bench& bench, const Shapes& shapes, int samples)
      : bench_(bench), k_(bench.kernels()), q_(bench.queue()), s_(shapes), samples_(samples) {}

  /// Without `cublas`, only attention: no product of cuBLASLt, and so no fractions.
  void run(bool cublas) {
    if (cublas)
      for (DType dtype : {DType::bf16, DType::f32}) large_product(dtype);
    for (DType dtype : {DType::bf16, DType::f32}) attention(dtype, s_.batch, s_.sequence, s_.heads);
    attention(DType::bf16, std::max<std::int64_t>(s_.batch / 8, 1), 4 * s_.sequence, s_.heads);
    attention(DType::bf16, s_.batch, s_.sequence, std::max(s_.heads / 4, 1));
    if (cublas) linears();
  }

  /// Measures cuBLAS's large product, of which the other figures are fractions, through
  /// linear_forward without a bias.
  void large_product(DType dtype) {
    const std::int64_t n = dtype == DType::bf16 ? s_.product : s_.product / 2;
    const View w = bench_.random({n, n}, dtype), none;
    const std::vector<View> x{bench_.random({n, n}, dtype), bench_.random({n, n}, dtype)};
    const View y = bench_.random({n, n}, dtype);
    const std::string name = fmt::format("large product {}", name_of(dtype));
    bench_.attempt(name, [&] {
      const double seconds = bench_.seconds(samples_, [&](int i) {
        k_.linear_forward(q_, x[static_cast<std::size_t>(i % 2)], w, none, y, WeightLayout::in_out);
      });
      const auto extent = static_cast<double>(n);
      const double rate = 2 * extent * extent * extent / seconds;
      (dtype == DType::bf16 ? bf16_rate_ : f32_rate_) = rate;
      print({name, rate / 1e12, "TFLOP/s",
             fmt::format("cuBLAS, {0} x {0} x {0}{1}", n,
                         dtype == DType::f32 ? ", without TF32" : "")});
    });
    bench_.release_all();
  }

  /// Measures a version of linear_forward, after large_product(): the attention's projection.
  void linear_forward(const std::string& name, DType dtype,
                      const decltype(Kernels::linear_forward)& kernel) {
    const std::int64_t h = s_.hidden;
    const View x = bench_.random({s_.rows(), h}, dtype), y = bench_.random({s_.rows(), h}, dtype);
    const View w = bench_.random({h, h}, dtype), bias = bench_.random({h}, dtype);
    const double flops = 2.0 * static_cast<double>(s_.rows() * h) * static_cast<double>(h);
    measure(
        name, flops, [&](int) { kernel(q_, x, w, bias, y, WeightLayout::in_out); }, dtype,
        fmt::format("({0}, {1}) by ({1}, {1})", s_.rows(), h));
    bench_.release_all();
  }
  /// Measures a version of attention_forward, on an eighth of the sequences.
  void attention_forward(const std::string& name, DType dtype,
                         const decltype(Kernels::attention_forward)& kernel) {
    const std::int64_t batch = std::max<std::int64_t>(s_.batch / 8, 1), s = s_.sequence;
    const View qkv = bench_.random({batch, s, 3 * s_.hidden}, dtype), none;
    const View y = bench_.random({batch, s, s_.hidden}, dtype);
    const View lse = bench_.random({batch, s_.heads, s}, DType::f32);
    const auto part = [&](int i) { return qkv.columns(i * s_.hidden, s_.hidden); };
    measure(
        name, causal_flops(batch, s),
        [&](int) { kernel(q_, part(0), part(1), part(2), s_.heads, y, lse, none); }, dtype,
        fmt::format("b {}, s {}; causal, counted in half", batch, s));
    bench_.release_all();
  }

 private:
  void measure(const std::string& name, double flops, const std::function<void(int)>& work,
               DType dtype, const std::string& detail) {
    bench_.attempt(name, [&] {
      const double seconds = bench_.seconds(samples_, work);
      const double reached = dtype == DType::bf16 ? bf16_rate_ : f32_rate_;
      std::string share;
      if (reached > 0)
        share = fmt::format("{:.0f} % of the large product, ", 100 * flops / seconds / reached);
      print({name, flops / seconds / 1e12, "TFLOP/s",
             fmt::format("{}{:.1f} us, {}", share, seconds * 1e6, detail)});
    });
  }

  // Half of causal attention is counted: 2 b s² h FLOPs for the forward pass.
  double causal_flops(std::int64_t batch, std::int64_t sequence) const {
    return 2.0 * static_cast<double>(batch * sequence) * static_cast<double>(sequence * s_.hidden);
  }

  // The backward pass recomputes the scores and therefore needs at least five products instead of
  // the forward pass's two. It is counted as 2.5 forward passes, although Lockstep's kernels
  // compute seven products. k and v have `groups` heads.
  void attention(DType dtype, std::int64_t batch, std::int64_t sequence, int groups) {
    const std::int64_t h = s_.hidden, of_k = h / s_.heads * groups;
    const auto make = [&](std::int64_t columns) {
      return bench_.random({batch, sequence, columns}, dtype);
    };
    const View none;
    const View qkv = make(h + 2 * of_k), dqkv = make(h + 2 * of_k);
    const View y = make(h), dy = make(h);
    const View lse = bench_.random({batch, s_.heads, sequence}, DType::f32);
    const auto part = [&](const View& of, int i) {
      return i == 0 ? of.columns(0, h) : of.columns(h + (i - 1) * of_k, of_k);
    };
    const double flops = causal_flops(batch, sequence);
    const std::string heads =
        groups == s_.heads ? "" : fmt::format(" in {} group{}", groups, groups == 1 ? "" : "s");
    const std::string shape = fmt::format("b {}, s {}, {} heads of {}{}; causal, counted in half",
                                          batch, sequence, s_.heads, h / s_.heads, heads);
    const auto forward = [&](int) {
      k_.attention_forward(q_, part(qkv, 0), part(qkv, 1), part(qkv, 2), s_.heads, y, lse, none);
    };
    const std::string suffix = fmt::format(" {}, s {}{}", name_of(dtype), sequence, heads);
    measure("attention forward" + suffix, flops, forward, dtype, shape);
    const auto backward = [&](int) {
      k_.attention_backward(q_, dy, part(qkv, 0), part(qkv, 1), part(qkv, 2), y, lse, none,
                            s_.heads, part(dqkv, 0), part(dqkv, 1), part(dqkv, 2));
    };
    measure("attention backward" + suffix, 2.5 * flops, backward, dtype, shape);
    bench_.release_all();
  }

  // Measures each product of the model. The head's weight is (V, h), like the token embedding's.
  // The head's product uses only an eighth of the rows.
  void linears() {
    const std::int64_t h = s_.hidden;
    linear("qkv", s_.rows(), h, 3 * h, WeightLayout::in_out);
    linear("projection", s_.rows(), h, h, WeightLayout::in_out);
    linear("mlp up", s_.rows(), h, 4 * h, WeightLayout::in_out);
    linear("mlp down", s_.rows(), 4 * h, h, WeightLayout::in_out);
    linear("head", s_.rows() / 8, h, s_.vocabulary, WeightLayout::out_in);
  }

  void linear(const std::string& name, std::int64_t rows, std::int64_t in, std::int64_t out,
              WeightLayout layout) {
    constexpr DType dtype = DType::bf16;
    const View x = bench_.random({rows, in}, dtype), y = bench_.random_aligned(rows, out, dtype);
    const Shape shape = layout == WeightLayout::in_out ? Shape{in, out} : Shape{out, in};
    const View w = bench_.random(shape, dtype), dw = bench_.random(shape, dtype);
    const View bias =
        layout == WeightLayout::in_out ? bench_.random({out}, dtype) : View{};  // no bias
    const double flops = 2.0 * static_cast<double>(rows * in) * static_cast<double>(out);
    const std::string detail = fmt::format("({0}, {1}) by ({1}, {2})", rows, in, out);
    const auto product = [&](const std::string& what, const std::function<void(int)>& work) {
      measure(fmt::format("linear {} {} bf16", name, what), flops, work, dtype, detail);
    };
    product("forward", [&](int) { k_.linear_forward(q_, x, w, bias, y, layout); });
    product("backward input", [&](int) { k_.linear_backward_input(q_, y, w, x, layout); });
    product("backward weight", [&](int) { k_.linear_backward_weight(q_, x, y, dw, bias, layout); });
    bench_.release_all();
  }

  Bench& bench_;
  const Kernels& k_;
  Queue q_;
  Shapes s_;
  int samples_;
  double bf16_rate_ = 0, f32_rate_ = 0;  ///< FLOP/s of the large products
};

}  // namespace lockstep
