#include <doctest/doctest.h>

#include <thread>

#include "tests/kernels/support.h"
#include "tests/support/portion.h"

using namespace lockstep;
using namespace lockstep::testing;

// Tests that results are bitwise identical for the same shapes and inputs, wherever the data lies
// in memory and whatever other threads compute at the same time.
namespace {

/// Runs every kernel that sums, with all arrays shifted by `offset` elements and, if the kernel
/// allows it, rows separated by `gap`. Returns the outputs.
std::vector<Array> run_all(std::int64_t offset, std::int64_t gap) {
  Random random{80};
  const std::int64_t b = 2, s = 75, rows = b * s, h = 36, out = 53;
  std::vector<Array> results;
  const auto input = [&](Shape shape, std::int64_t rows_apart = 0) {
    Array array{shape, rows_apart, offset};
    array.randomize(random);
    return array;
  };
  const auto output = [&](Shape shape, std::int64_t rows_apart = 0) -> Array& {
    return results.emplace_back(Array{shape, rows_apart, offset}.set(0.25F));
  };
  results.reserve(96);

  for (WeightLayout layout : {WeightLayout::in_out, WeightLayout::out_in}) {
    const Shape weight = layout == WeightLayout::in_out ? Shape{h, out} : Shape{out, h};
    const Array x = input({rows, h}, gap), w = input(weight), bias = input({out}),
                dy = input({rows, out}, gap);
    kernels().linear_forward({}, x, w, bias, output({rows, out}, gap), layout);
    kernels().linear_backward_input({}, dy, w, output({rows, h}, gap), layout);
    kernels().linear_backward_weight({}, x, dy, output(weight), output({out}), layout);
  }
  {
    const Array x = input({rows, out}), gain = input({out}), dy = input({rows, out});
    Array &mean = output({rows}), &rstd = output({rows});
    kernels().layernorm_forward({}, x, gain, gain, output({rows, out}), mean, rstd);
    kernels().layernorm_backward_input({}, dy, x, gain, mean, rstd, output({rows, out}));
    kernels().layernorm_backward_weight({}, dy, x, mean, rstd, output({out}), output({out}));
    kernels().gelu_forward({}, x, output({rows, out}));
    kernels().gelu_backward({}, x, dy, output({rows, out}));
    kernels().rmsnorm_forward({}, x, gain, 1e-6F, output({rows, out}), rstd);
    kernels().rmsnorm_backward_input({}, dy, x, gain, rstd, output({rows, out}));
    kernels().rmsnorm_backward_weight({}, dy, x, rstd, output({out}));
    const Array wide = input({rows, 2 * out});
    kernels().swiglu_forward({}, wide, output({rows, out}));
    kernels().swiglu_backward({}, wide, dy, output({rows, 2 * out}));
  }
  {
    Array& x = output({b, s, h}, gap);
    x.set(input({b, s, h}));
    auto positions = random_indices(random, s, 20);
    kernels().rotary({}, x, 3, input({20, 12}), indices(positions, {s}), false);
  }
  // k has three heads, or one that all heads of q share.
  for (const std::int64_t of_k : {h, h / 3}) {
    const Array q = input({b, s, h}, gap), k = input({b, s, of_k}, gap),
                v = input({b, s, of_k}, gap), dy = input({b, s, h});
    Array &y = output({b, s, h}), &lse = output({b, 3, s});
    kernels().attention_forward({}, q, k, v, 3, y, lse, {});
    kernels().attention_backward({}, dy, q, k, v, y, lse, {}, 3, output({b, s, h}, gap),
                                 output({b, s, of_k}, gap), output({b, s, of_k}, gap));
    const AttentionBlock block{1, s - 1, 0, s / 2};
    auto ranges = random_indices(random, 2 * b * s, s);
    for (const View visible : {View{}, indices(ranges, {b, s, 2})}) {
      Array &part = output({b, s - 1, h}), &part_lse = output({b, 3, s - 1});
      kernels().attention_block_forward({}, q, k, v, 3, block, visible, part, part_lse);
      kernels().attention_merge({}, part, part_lse, 3, 1, y, lse);
      kernels().attention_block_backward({}, dy, q, k, v, y, lse, 3, block, visible,
                                         output({b, s, h}, gap), output({b, s, of_k}, gap),
                                         output({b, s, of_k}, gap));
    }
  }
  {
    const Array logits = input({rows, out});
    auto targets = random_indices(random, rows, out);
    Array& lse = output({rows});
    kernels().cross_entropy_forward({}, logits, indices(targets, {rows}), output({rows}), lse);
    kernels().cross_entropy_backward({}, logits, indices(targets, {rows}), lse, 0.1F,
                                     output({rows, out}));
    Array &parts = output({3, rows}), &merged = output({rows});
    kernels().cross_entropy_part_forward({}, logits, indices(targets, {rows}), {20, 50}, parts);
    kernels().cross_entropy_merge({}, parts, output({rows}), merged);
    kernels().cross_entropy_part_backward({}, logits, indices(targets, {rows}), {20, 50}, merged,
                                          0.1F, output({rows, out}));
    std::vector<std::int32_t> experts(static_cast<std::size_t>(2 * rows)), slots(experts.size());
    for (std::size_t i = 0; i < slots.size(); ++i) slots[i] = static_cast<std::int32_t>(i) - 1;
    const View chosen = indices(experts, {rows, 2}), places = indices(slots, {rows, 2});
    Array &probabilities = output({rows, out}), &dweights = output({rows, 2}),
          &combined = output({rows, out}), &dy = output({2 * rows - 1, out});
    const Array y = input({2 * rows - 1, out}), balance = input({out});
    kernels().router_forward({}, logits, probabilities, chosen, output({rows}));
    kernels().combine_rows({}, y, places, probabilities, chosen, combined);
    kernels().combine_rows_backward({}, logits, y, places, probabilities, chosen, dy, dweights);
    kernels().router_backward({}, probabilities, chosen, dweights, balance, output({rows, out}));
    Array& sums = output({2});
    sums[0] = static_cast<float>(sum_of(&Kernels::sums, logits));
    sums[1] = static_cast<float>(sum_of(&Kernels::sums_of_squares, logits));
  }
  return results;
}

bool all_same(const std::vector<Array>& a, const std::vector<Array>& b) {
  bool same = a.size() == b.size();
  for (std::size_t i = 0; same && i < a.size(); ++i) same = same_bits(a[i], b[i]);
  return same;
}

}  // namespace

TEST_CASE("the same bits at any alignment and stride") {
  const auto want = run_all(0, 0);
  const std::int64_t step = on_cpu() ? 1 : portion_of(1, 6);
  for (std::int64_t offset = 0; offset < 17; offset += step)
    for (std::int64_t gap : {0, 1, 28}) {
      CAPTURE(offset);
      CAPTURE(gap);
      CHECK(all_same(run_all(offset, gap), want));
    }
}

namespace {

/// The three matrix products of a linear layer of random size, in f32 or bf16.
class RandomProducts {
 public:
  RandomProducts(DType dtype, Random& random) : dtype_(dtype) {
    // Libraries may use different code for extents that are multiples of 32, and for rows whose
    // distance is a multiple of 256 elements.
    const bool round = random.between(0, 2) == 0;
    const std::int64_t most = random.between(0, 4) == 0 ? 1100 : 130;
    const auto extent = [&] {
      const std::int64_t n = random.between(1, most);
      return round ? (n + 31) / 32 * 32 : n;
    };
    rows_ = extent(), in_ = extent(), out_ = extent();
    layout_ = random.between(0, 1) == 0 ? WeightLayout::in_out : WeightLayout::out_in;
    for (Shape shape : {Shape{rows_, in_}, weight(), Shape{out_}, Shape{rows_, out_}})
      inputs_.push_back(Array{shape}.randomize(random));
  }

  /// Returns y, dx, dw and db. The arrays start `offset` elements after an aligned address, and
  /// `gap` elements separate the rows of x, y and their gradients.
  std::vector<Doubles> run(std::int64_t offset, std::int64_t gap) const {
    const Array x = place(inputs_[0], offset, gap), w = place(inputs_[1], offset, 0),
                bias = place(inputs_[2], offset, 0), dy = place(inputs_[3], offset, gap);
    Array y{{rows_, out_}, gap, offset}, dx{{rows_, in_}, gap, offset}, dw{weight(), 0, offset},
        db{{out_}, 0, offset};
    y.set(0.0F), dx.set(0.0F), dw.set(0.25F), db.set(0.25F);
    const Narrowed narrow_x{x, dtype_, offset}, narrow_w{w, dtype_, offset},
        narrow_bias{bias, dtype_, offset}, narrow_dy{dy, dtype_, offset};
    // On the CPU, the results are f32; on a GPU, all operands of a product have one type.
    const DType results = on_cpu() ? DType::f32 : dtype_;
    const Narrowed to_y{y, results, offset}, to_dx{dx, results, offset}, to_dw{dw, results, offset},
        to_db{db, results, offset};
    kernels().linear_forward({}, narrow_x, narrow_w, narrow_bias, to_y, layout_);
    kernels().linear_backward_input({}, narrow_dy, narrow_w, to_dx, layout_);
    kernels().linear_backward_weight({}, narrow_x, narrow_dy, to_dw, to_db, layout_);
    for (const auto& [from, to] :
         {std::pair{&to_y, &y}, {&to_dx, &dx}, {&to_dw, &dw}, {&to_db, &db}})
      from->widen(*to);
    return {y.doubles(), dx.doubles(), dw.doubles(), db.doubles()};
  }

 private:
  /// A copy of an array in the type under test, at the same offset and with the same gaps.
  struct Narrowed {
    Narrowed(const Array& array, DType dtype, std::int64_t offset) : view_(array.view()) {
      if (dtype == DType::f32) return;
      const View f32 = view_;
      memory_.resize(static_cast<std::size_t>(f32.shape.rows() * f32.row_stride + offset));
      view_.data = memory_.data() + offset;
      view_.dtype = dtype;
      kernels().convert({}, f32, view_);
    }
    operator View() const { return view_; }
    /// Writes the elements to the array that was copied.
    void widen(const Array& to) const {
      if (view_.dtype != DType::f32) kernels().convert({}, view_, to);
    }
    View view_;
    std::vector<std::uint16_t> memory_;
  };

  Shape weight() const {
    return layout_ == WeightLayout::in_out ? Shape{in_, out_} : Shape{out_, in_};
  }
  static Array place(const Array& from, std::int64_t offset, std::int64_t gap) {
    Array array{from.view().shape, gap, offset};
    array.set(from);
    return array;
  }

  DType dtype_;
  std::int64_t rows_, in_, out_;
  WeightLayout layout_;
  std::vector<Array> inputs_;
};

}  // namespace

TEST_CASE("products of random extents have the same bits at any alignment and stride") {
  Random random{81};
  const int trials = on_cpu() ? 60 : portion_of(60, 6);
  for (int trial = 0; trial < trials; ++trial)
    for (const DType dtype : {DType::f32, DType::bf16}) {
      const RandomProducts products{dtype, random};
      const auto want = products.run(0, 0);
      CHECK(products.run(random.between(1, 16), 0) == want);
      CHECK(products.run(random.between(0, 16), random.between(1, 70)) == want);
      CHECK(products.run(random.between(0, 16), 256 * random.between(1, 3)) == want);
      // A GPU's products copy operands whose rows are not aligned. These gaps keep them aligned, so
      // that the products see the strides.
      for (const std::int64_t gap : {8, 256}) CHECK(products.run(0, gap) == want);
    }
}

TEST_CASE("the same bits while other threads compute") {
  const auto want = run_all(0, 0);
  const int times = on_cpu() ? 5 : portion_of(5, 1);
  std::vector<std::vector<Array>> results(4);
  std::vector<std::thread> threads;
  for (auto& result : results)
    threads.emplace_back([&result, times] {
      for (int i = 0; i < times; ++i) result = run_all(3, 2);
    });
  for (std::thread& thread : threads) thread.join();
  for (const auto& result : results) CHECK(all_same(result, want));
}
