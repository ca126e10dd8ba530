#include <doctest/doctest.h>

#include <functional>
#include <set>
#include <string>
#include <type_traits>

#include "kernels/check.h"
#include "kernels/every_kernel.h"
#include "tests/kernels/support.h"

using namespace lockstep;
using namespace lockstep::testing;

namespace {

/// A kernel call, with views whose shapes match.
struct Call {
  std::string kernel;
  std::vector<View> views;
  std::function<void(const std::vector<View>&)> run;
};

std::vector<float> memory(4096, 0.5F);
std::vector<std::int32_t> index_memory(64, 1);

View view_of(Shape shape, DType dtype = DType::f32) {
  return {memory.data(), shape, dtype};
}
View f(Shape shape) {
  return view_of(shape);
}
View i(Shape shape) {
  return {index_memory.data(), shape, DType::i32};
}

/// Returns at least one call of each kernel that takes several views. Shapes are small: b 2, s 3, h
/// 4, out 5, heads 2. Views that may be 16-bit have type `dtype`.
std::vector<Call> calls(DType dtype = DType::f32) {
  const Kernels& k = kernels();
  const auto f = [dtype](Shape shape) { return view_of(shape, dtype); };
  using Views = const std::vector<View>&;
  constexpr auto in_out = WeightLayout::in_out;
  constexpr auto out_in = WeightLayout::out_in;
  const View bsh = f({2, 3, 4}), n = f({6}), h = f({4}), nh = f({6, 4});
  const View lse = view_of({2, 2, 3}), per_row = view_of({6});  // statistics
  const View probabilities = view_of({2, 2, 3, 3});
  return {
      {"linear_forward",
       {nh, f({4, 5}), f({5}), f({6, 5})},
       [&](Views v) { k.linear_forward({}, v[0], v[1], v[2], v[3], in_out); }},
      {"linear_forward",
       {nh, f({5, 4}), f({5}), f({6, 5})},
       [&](Views v) { k.linear_forward({}, v[0], v[1], v[2], v[3], out_in); }},
      {"linear_backward_input",
       {f({6, 5}), f({4, 5}), nh},
       [&](Views v) { k.linear_backward_input({}, v[0], v[1], v[2], in_out); }},
      {"linear_backward_weight",
       {nh, f({6, 5}), f({4, 5}), f({5})},
       [&](Views v) { k.linear_backward_weight({}, v[0], v[1], v[2], v[3], in_out); }},
      {"layernorm_forward",
       {nh, h, h, nh, per_row, per_row},
       [&](Views v) { k.layernorm_forward({}, v[0], v[1], v[2], v[3], v[4], v[5]); }},
      {"layernorm_backward_input",
       {nh, nh, h, per_row, per_row, nh},
       [&](Views v) { k.layernorm_backward_input({}, v[0], v[1], v[2], v[3], v[4], v[5]); }},
      {"layernorm_backward_weight",
       {nh, nh, per_row, per_row, h, h},
       [&](Views v) { k.layernorm_backward_weight({}, v[0], v[1], v[2], v[3], v[4], v[5]); }},
      {"rmsnorm_forward",
       {nh, h, nh, per_row},
       [&](Views v) { k.rmsnorm_forward({}, v[0], v[1], 1e-5F, v[2], v[3]); }},
      {"rmsnorm_backward_input",
       {nh, nh, h, per_row, nh},
       [&](Views v) { k.rmsnorm_backward_input({}, v[0], v[1], v[2], v[3], v[4]); }},
      {"rmsnorm_backward_weight",
       {nh, nh, per_row, h},
       [&](Views v) { k.rmsnorm_backward_weight({}, v[0], v[1], v[2], v[3]); }},
      {"gelu_forward", {n, n}, [&](Views v) { k.gelu_forward({}, v[0], v[1]); }},
      {"gelu_backward", {n, n, n}, [&](Views v) { k.gelu_backward({}, v[0], v[1], v[2]); }},
      {"swiglu_forward", {nh, f({6, 2})}, [&](Views v) { k.swiglu_forward({}, v[0], v[1]); }},
      {"swiglu_backward",
       {nh, f({6, 2}), nh},
       [&](Views v) { k.swiglu_backward({}, v[0], v[1], v[2]); }},
      {"rotary",
       {bsh, view_of({5, 2}), i({2, 3})},
       [&](Views v) { k.rotary({}, v[0], 2, v[1], v[2], false); }},
      {"attention_forward",
       {bsh, bsh, bsh, bsh, lse, probabilities},
       [&](Views v) { k.attention_forward({}, v[0], v[1], v[2], 2, v[3], v[4], v[5]); }},
      {"attention_backward",
       {bsh, bsh, bsh, bsh, bsh, lse, bsh, bsh, bsh},
       [&](Views v) {
         k.attention_backward({}, v[0], v[1], v[2], v[3], v[4], v[5], {}, 2, v[6], v[7], v[8]);
       }},
      {"attention_backward",
       {bsh, bsh, bsh, bsh, bsh, probabilities, bsh, bsh, bsh},
       [&](Views v) {
         k.attention_backward({}, v[0], v[1], v[2], v[3], v[4], {}, v[5], 2, v[6], v[7], v[8]);
       }},
      {"attention_block_forward",
       {bsh, f({2, 5, 4}), f({2, 5, 4}), i({2, 3, 2}), f({2, 2, 4}), view_of({2, 2, 2})},
       [&](Views v) {
         k.attention_block_forward({}, v[0], v[1], v[2], 2, {1, 2, 1, 3}, v[3], v[4], v[5]);
       }},
      {"attention_merge",
       {f({2, 2, 4}), view_of({2, 2, 2}), bsh, lse},
       [&](Views v) { k.attention_merge({}, v[0], v[1], 2, 1, v[2], v[3]); }},
      {"attention_block_backward",
       {bsh, bsh, f({2, 5, 4}), f({2, 5, 4}), bsh, lse, i({2, 3, 2}), bsh, f({2, 5, 4}),
        f({2, 5, 4})},
       [&](Views v) {
         k.attention_block_backward({}, v[0], v[1], v[2], v[3], v[4], v[5], 2, {1, 2, 1, 3}, v[6],
                                    v[7], v[8], v[9]);
       }},
      {"embedding_forward",
       {i({2, 3}), f({7, 4}), f({3, 4}), bsh},
       [&](Views v) { k.embedding_forward({}, v[0], v[1], v[2], v[3]); }},
      {"embedding_backward",
       {i({2, 3}), bsh, f({7, 4}), f({3, 4})},
       [&](Views v) { k.embedding_backward({}, v[0], v[1], v[2], v[3]); }},
      {"embedding_part_forward",
       {i({2, 3}), f({7, 4}), f({3, 4}), bsh},
       [&](Views v) {
         k.embedding_part_forward({}, v[0], {1, 6}, v[1], v[2], v[3]);
       }},
      {"embedding_part_backward",
       {i({2, 3}), bsh, f({7, 4}), f({3, 4})},
       [&](Views v) {
         k.embedding_part_backward({}, v[0], {1, 6}, v[1], v[2], v[3]);
       }},
      {"cross_entropy_part_forward",
       {nh, i({6}), view_of({3, 6})},
       [&](Views v) {
         k.cross_entropy_part_forward({}, v[0], v[1], {0, 4}, v[2]);
       }},
      {"cross_entropy_merge",
       {view_of({2, 3, 6}), per_row, per_row},
       [&](Views v) { k.cross_entropy_merge({}, v[0], v[1], v[2]); }},
      {"cross_entropy_part_backward",
       {nh, i({6}), per_row, nh},
       [&](Views v) {
         k.cross_entropy_part_backward({}, v[0], v[1], {0, 4}, v[2], 1.0F, v[3]);
       }},
      {"cross_entropy_forward",
       {nh, i({6}), per_row, per_row},
       [&](Views v) { k.cross_entropy_forward({}, v[0], v[1], v[2], v[3]); }},
      {"cross_entropy_backward",
       {nh, i({6}), per_row, nh},
       [&](Views v) { k.cross_entropy_backward({}, v[0], v[1], v[2], 1.0F, v[3]); }},
      {"router_forward",
       {nh, view_of({6, 4}), i({6, 2}), per_row},
       [&](Views v) { k.router_forward({}, v[0], v[1], v[2], v[3]); }},
      {"router_backward",
       {view_of({6, 4}), i({6, 2}), view_of({6, 2}), view_of({4}), nh},
       [&](Views v) { k.router_backward({}, v[0], v[1], v[2], v[3], v[4]); }},
      {"gather_rows", {nh, i({6}), nh}, [&](Views v) { k.gather_rows({}, v[0], v[1], v[2]); }},
      {"combine_rows",
       {nh, i({6, 2}), view_of({6, 4}), i({6, 2}), nh},
       [&](Views v) { k.combine_rows({}, v[0], v[1], v[2], v[3], v[4]); }},
      {"combine_rows_backward",
       {nh, nh, i({6, 2}), view_of({6, 4}), i({6, 2}), nh, view_of({6, 2})},
       [&](Views v) { k.combine_rows_backward({}, v[0], v[1], v[2], v[3], v[4], v[5], v[6]); }},
      {"add", {n, n, n}, [&](Views v) { k.add({}, v[0], v[1], v[2]); }},
      {"copy", {nh, nh}, [&](Views v) { k.copy({}, v[0], v[1]); }},
      {"adamw",
       {n, n, per_row, per_row},
       [&](Views v) {
         k.adamw({}, {{v[0], v[1], v[2], v[3], {}}}, {});
       }},
  };
}

std::vector<Call> all_calls() {
  std::vector<Call> all;
  for (const DType dtype : {DType::f32, DType::bf16, DType::f16})
    for (Call& call : calls(dtype)) all.push_back(std::move(call));
  return all;
}

/// Returns the kernel's error message for these views, or "" if it accepts them.
std::string complaint(const Call& call, const std::vector<View>& views) {
  try {
    call.run(views);
  } catch (const std::invalid_argument& error) {
    return error.what();
  }
  return "";
}

bool contains(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

}  // namespace

TEST_CASE("calls() has every kernel that takes several views") {
  std::set<std::string> called{"convert"};  // with equal types, its errors name `copy`
  for (const Call& call : calls()) called.insert(call.kernel);
  for_each_kernel([&]<class Result, class... Arguments>(
                      const char* name, Kernel<Result(Queue, Arguments...)> Kernels::*) {
    const std::string kernel = name;
    CAPTURE(kernel);
    const int views = (int{std::is_base_of_v<View, std::remove_cvref_t<Arguments>>} + ...);
    const bool list = ((std::is_same_v<Arguments, Ins> || std::is_same_v<Arguments, Outs>) || ...);
    CHECK((views == 1 || list || called.contains(kernel)));
  });
}

TEST_CASE("an implementation that lacks a kernel is rejected, and the error names the kernel") {
  Kernels some = kernels();
  CHECK_NOTHROW(want_every_kernel("CPU", some));
  some.gelu_backward = nullptr;
  CHECK_THROWS_WITH_AS(want_every_kernel("CPU", some), "the CPU has no kernel gelu_backward",
                       std::logic_error);
}

TEST_CASE("every kernel accepts matching shapes; otherwise its error names it and two shapes") {
  for (const Call& call : all_calls()) {
    CAPTURE(call.kernel);
    CHECK(complaint(call, call.views).empty());
    for (std::size_t position = 0; position < call.views.size(); ++position) {
      CAPTURE(position);
      // Makes one extent of one view too small by one.
      for (int extent = 0; extent < call.views[position].shape.rank(); ++extent) {
        CAPTURE(extent);
        std::vector<View> views = call.views;
        const Shape fits = views[position].shape;
        // A token table may have any number of rows, and a position table may have more rows than
        // needed. Any number of ranks is valid.
        const bool table =
            contains(call.kernel, "embedding") && fits.rank() == 2 && fits[1] == 4 && extent == 0;
        if (table && fits[0] == 7) continue;
        if (call.kernel == "rotary" && position == 1 && extent == 0) continue;
        if (call.kernel == "cross_entropy_forward" && position == 0 && extent == 1) continue;
        if (call.kernel == "cross_entropy_merge" && position == 0 && extent == 0) continue;
        // Any number of experts, choices and rows to choose from is valid.
        if (call.kernel == "router_forward" && position == 2 && extent == 1) continue;
        if (call.kernel == "gather_rows" && position == 0 && extent == 0) continue;
        if (call.kernel == "combine_rows" &&
            ((position == 0 && extent == 0) || (position == 2 && extent == 1)))
          continue;
        if (call.kernel == "combine_rows_backward" && position == 3 && extent == 1) continue;
        std::int64_t e[4] = {0, 0, 0, 0};
        for (int axis = 0; axis < fits.rank(); ++axis) e[axis] = fits[axis] - (axis == extent);
        const Shape wrong = fits.rank() == 1   ? Shape{e[0]}
                            : fits.rank() == 2 ? Shape{e[0], e[1]}
                            : fits.rank() == 3 ? Shape{e[0], e[1], e[2]}
                                               : Shape{e[0], e[1], e[2], e[3]};
        views[position] = View{views[position].data, wrong, views[position].dtype};
        const std::string said = complaint(call, views);
        CAPTURE(said);
        CHECK(said.starts_with(call.kernel + ": "));
        CHECK(contains(said, "does not fit"));
        CHECK(std::count(said.begin(), said.end(), '(') >= 2);
      }
      std::vector<View> views = call.views;
      const bool indices = views[position].dtype == DType::i32;
      views[position].dtype = indices ? DType::f32 : DType::i32;
      CHECK(contains(complaint(call, views), "i32"));
    }
  }
}

TEST_CASE("statistics and moments are f32 whatever the other types are") {
  for (Call& call : calls(DType::bf16)) {
    CAPTURE(call.kernel);
    for (View& view : call.views) {
      if (view.dtype != DType::f32) continue;
      view.dtype = DType::bf16;
      CHECK(contains(complaint(call, call.views), "is bf16; this kernel takes f32"));
      view.dtype = DType::f32;
    }
  }
}

TEST_CASE("views without memory and overlapping rows are rejected") {
  for (const Call& call : all_calls()) {
    CAPTURE(call.kernel);
    for (std::size_t position = 0; position < call.views.size(); ++position) {
      CAPTURE(position);
      std::vector<View> views = call.views;
      const bool optional =
          (contains(call.kernel, "linear") && views[position].shape.rank() == 1) ||
          (contains(call.kernel, "embedding_part") && views[position].shape == Shape{3, 4});
      views[position].data = nullptr;
      CHECK(complaint(call, views).empty() == optional);
      if (call.views[position].shape.rank() < 2) continue;
      views = call.views;
      views[position].row_stride -= 1;
      CHECK(complaint(call, views) != "");
    }
  }
}

TEST_CASE("kernels that need contiguous rows reject strides") {
  View wide = f({6, 8});
  const View half = wide.columns(0, 4);
  CHECK_THROWS_WITH_AS(
      kernels().gelu_forward({}, half, f({6, 4})),
      "gelu_forward: x (6, 4) has rows 8 elements apart; this argument must be contiguous",
      std::invalid_argument);
  CHECK_THROWS_AS(kernels().fill({}, half, 1.0F), std::invalid_argument);
  CHECK_THROWS_AS(kernels().scale({}, half, 1.0F), std::invalid_argument);
  CHECK_THROWS_AS(sum_of(&Kernels::sums, half), std::invalid_argument);
  CHECK_THROWS_AS(sum_of(&Kernels::sums_of_squares, half), std::invalid_argument);
  // A single row is contiguous whatever its stride.
  CHECK_NOTHROW(kernels().fill({}, f({1, 8}).columns(2, 4), 0.5F));
}

TEST_CASE("a message reads as a sentence about the two shapes") {
  CHECK_THROWS_WITH_AS(
      kernels().linear_forward({}, f({6, 4}), f({3, 5}), View{}, f({6, 5}), WeightLayout::in_out),
      "linear_forward: x (6, 4) does not fit w (3, 5): w must be (in, out), with as many rows as x "
      "has columns",
      std::invalid_argument);
}

TEST_CASE("heads that do not divide the columns are rejected") {
  const View bsh = f({2, 3, 4});
  CHECK_THROWS_WITH_AS(kernels().attention_forward({}, bsh, bsh, bsh, 3, bsh, f({2, 3, 3}), {}),
                       "attention_forward: 3 heads do not divide the 4 columns of q",
                       std::invalid_argument);
  CHECK_THROWS_AS(kernels().attention_forward({}, bsh, bsh, bsh, 0, bsh, f({2, 1, 3}), {}),
                  std::invalid_argument);
  // Four heads of q can share one or two heads of k, but not three.
  const View q = f({1, 3, 8}), lse = f({1, 4, 3});
  for (const std::int64_t columns : {2, 4, 8}) {
    const View k = f({1, 3, columns});
    CHECK_NOTHROW(kernels().attention_forward({}, q, k, k, 4, f({1, 3, 8}), lse, {}));
  }
  for (const std::int64_t columns : {1, 3, 6, 16}) {
    const View k = f({1, 3, columns});
    CHECK_THROWS_AS(kernels().attention_forward({}, q, k, k, 4, f({1, 3, 8}), lse, {}),
                    std::invalid_argument);
  }
}
