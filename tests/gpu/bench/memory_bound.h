#pragma once

#include <fmt/format.h>

#include <algorithm>
#include <string>
#include <vector>

#include "tests/gpu/bench/shapes.h"
#include "tests/gpu/bench/timing.h"

namespace lockstep {

/// Measures kernels that only move memory, as fractions of a copy's bandwidth in the same run. Each
/// byte that must be read counts once, and so does each byte that must be written.
class MemoryBound {
 public:
  MemoryBound(Bench& bench, const Shapes& shapes, int samples)
      : bench_(bench), k_(bench.kernels()), q_(bench.queue()), s_(shapes), samples_(samples) {}

  void run() {
    copy();
    for (DType dtype : {DType::bf16, DType::f32}) {
      layernorm(dtype);
      rmsnorm(dtype);
      elementwise(dtype);
      swiglu_and_rotary(dtype);
      cross_entropy(dtype);
      embedding(dtype);
      reductions(dtype);
    }
    adamw();
  }

  /// Measures the copy that all others are compared with.
  void copy() {
    const int count = sets(2 * s_.copied);
    std::vector<View> from, to;
    for (int i = 0; i < count; ++i) {
      from.push_back(bench_.random({s_.copied / 4}, DType::f32));
      to.push_back(bench_.random({s_.copied / 4}, DType::f32));
    }
    const double seconds = bench_.seconds(samples_, [&](int i) {
      const auto set = static_cast<std::size_t>(i % count);
      bench_.gpu().copy(q_, to[set].data, from[set].data, from[set].bytes());
    });
    copy_rate_ = 2 * static_cast<double>(s_.copied) / seconds;
    print({"copy", copy_rate_ / 1e9, "GB/s",
           fmt::format("{} MiB, read and written", s_.copied >> 20)});
    bench_.release_all();
  }

  /// Measures a version of layernorm_forward, after copy().
  void layernorm_forward(const std::string& name, DType dtype,
                         const decltype(Kernels::layernorm_forward)& kernel) {
    const auto make = [&] {
      std::vector<View> views = activations(2, dtype);
      for (int i = 0; i < 2; ++i) views.push_back(bench_.random({s_.hidden}, dtype));
      for (int i = 0; i < 2; ++i) views.push_back(bench_.random({s_.rows()}, DType::f32));
      return views;
    };
    memory_bound(name, passes(2, dtype), shape_words(dtype), make,
                 [&](auto& v) { kernel(q_, v[0], v[2], v[3], v[1], v[4], v[5]); });
  }
  /// Measures a version of layernorm_backward_input.
  void layernorm_backward_input(const std::string& name, DType dtype,
                                const decltype(Kernels::layernorm_backward_input)& kernel) {
    memory_bound(
        name, passes(3, dtype), shape_words(dtype), [&] { return normalised(dtype); },
        [&](auto& v) { kernel(q_, v[2], v[0], v[3], v[5], v[6], v[1]); });
  }
  /// Measures a version of gelu_forward.
  void gelu_forward(const std::string& name, DType dtype,
                    const decltype(Kernels::gelu_forward)& kernel) {
    memory_bound(
        name, passes(2, dtype), shape_words(dtype), [&] { return activations(2, dtype); },
        [&](auto& v) { kernel(q_, v[0], v[1]); });
  }
  /// Measures a version of cross_entropy_forward, on an eighth of the rows.
  void cross_entropy_forward(const std::string& name, DType dtype,
                             const decltype(Kernels::cross_entropy_forward)& kernel) {
    const std::int64_t rows = s_.rows() / 8;
    const auto make = [&] {
      return std::vector<View>{bench_.random_aligned(rows, s_.vocabulary, dtype),
                               bench_.indices({rows}, static_cast<int>(s_.vocabulary)),
                               bench_.random({rows}, DType::f32),
                               bench_.random({rows}, DType::f32)};
    };
    memory_bound(name, rows * s_.vocabulary * static_cast<std::int64_t>(size_of(dtype)),
                 fmt::format("({}, {}) {}", rows, s_.vocabulary, name_of(dtype)), make,
                 [&](auto& v) { kernel(q_, v[0], v[1], v[2], v[3]); });
  }

 private:
  /// Returns how many buffer sets of `bytes` bytes each it takes to evict the first set from the
  /// caches.
  int sets(std::int64_t bytes) const {
    return static_cast<int>(std::clamp<std::int64_t>(s_.between_uses / bytes + 1, 2, 16));
  }

  /// Measures a kernel that only moves memory. `make` creates the views of one set of buffers;
  /// `work` runs the kernel on them. Each kernel call moves `bytes` bytes.
  template <class Make, class Work>
  void memory_bound(const std::string& name, std::int64_t bytes, const std::string& detail,
                    Make&& make, Work&& work) {
    bench_.attempt(name, [&] {
      const int count = sets(bytes);
      std::vector<std::vector<View>> views;
      for (int i = 0; i < count; ++i) views.push_back(make());
      const double seconds = bench_.seconds(
          samples_, [&](int i) { work(views[static_cast<std::size_t>(i % count)]); });
      const double rate = static_cast<double>(bytes) / seconds;
      print({name, 100 * rate / copy_rate_, "% of copy",
             fmt::format("{:.0f} GB/s, {:.1f} us, {}", rate / 1e9, seconds * 1e6, detail)});
    });
    bench_.release_all();
  }

  std::string shape_words(DType dtype) const {
    return fmt::format("({}, {}) {}", s_.rows(), s_.hidden, name_of(dtype));
  }
  std::int64_t passes(int count, DType dtype) const {
    return count * s_.rows() * s_.hidden * static_cast<std::int64_t>(size_of(dtype));
  }
  /// Returns `count` views of shape (rows, h).
  std::vector<View> activations(int count, DType dtype) {
    std::vector<View> views;
    for (int i = 0; i < count; ++i) views.push_back(bench_.random({s_.rows(), s_.hidden}, dtype));
    return views;
  }

  /// Returns x, room for y or dx, dy, gain, bias, mean, rstd, dgain and dbias.
  std::vector<View> normalised(DType dtype) {
    std::vector<View> views = activations(3, dtype);
    for (int i = 0; i < 2; ++i) views.push_back(bench_.random({s_.hidden}, dtype));
    for (int i = 0; i < 2; ++i) views.push_back(bench_.random({s_.rows()}, DType::f32));
    for (int i = 0; i < 2; ++i) views.push_back(bench_.random({s_.hidden}, dtype));
    k_.layernorm_forward(q_, views[0], views[3], views[4], views[1], views[5], views[6]);
    return views;
  }

  void layernorm(DType dtype) {
    const std::string type = name_of(dtype), shape = shape_words(dtype);
    const auto make = [&] { return normalised(dtype); };
    layernorm_forward("layernorm forward " + type, dtype, k_.layernorm_forward);
    layernorm_backward_input("layernorm backward input " + type, dtype,
                             k_.layernorm_backward_input);
    memory_bound("add and layernorm forward " + type, passes(4, dtype), shape, make, [&](auto& v) {
      k_.add_layernorm_forward(q_, v[0], v[2], v[2], v[3], v[4], v[1], v[5], v[6]);
    });
    memory_bound("layernorm backward input, add " + type, passes(4, dtype), shape, make,
                 [&](auto& v) {
                   k_.layernorm_backward_input_add(q_, v[1], v[0], v[3], v[5], v[6], v[2], v[1]);
                 });
    memory_bound("layernorm backward weight " + type, passes(2, dtype), shape, make, [&](auto& v) {
      k_.layernorm_backward_weight(q_, v[2], v[0], v[5], v[6], v[7], v[8]);
    });
  }

  void rmsnorm(DType dtype) {
    const std::string type = name_of(dtype), shape = shape_words(dtype);
    const auto make = [&] {
      std::vector<View> views = activations(3, dtype);
      for (int i = 0; i < 2; ++i) views.push_back(bench_.random({s_.hidden}, dtype));
      views.push_back(bench_.random({s_.rows()}, DType::f32));
      return views;
    };
    memory_bound("rmsnorm forward " + type, passes(2, dtype), shape, make,
                 [&](auto& v) { k_.rmsnorm_forward(q_, v[0], v[3], 1e-5F, v[1], v[5]); });
    memory_bound("rmsnorm backward input " + type, passes(3, dtype), shape, make,
                 [&](auto& v) { k_.rmsnorm_backward_input(q_, v[2], v[0], v[3], v[5], v[1]); });
    memory_bound("rmsnorm backward weight " + type, passes(2, dtype), shape, make,
                 [&](auto& v) { k_.rmsnorm_backward_weight(q_, v[2], v[0], v[5], v[4]); });
  }

  void swiglu_and_rotary(DType dtype) {
    const std::string type = name_of(dtype), shape = shape_words(dtype);
    const auto gated = [&] {
      return std::vector<View>{bench_.random({s_.rows(), 2 * s_.hidden}, dtype),
                               bench_.random({s_.rows(), s_.hidden}, dtype)};
    };
    memory_bound("swiglu forward " + type, passes(3, dtype), shape, gated,
                 [&](auto& v) { k_.swiglu_forward(q_, v[0], v[1]); });
    memory_bound("swiglu backward " + type, passes(5, dtype), shape, gated,
                 [&](auto& v) { k_.swiglu_backward(q_, v[0], v[1], v[0]); });
    const auto rotated = [&] {
      return std::vector<View>{bench_.random({s_.batch, s_.sequence, s_.hidden}, dtype),
                               bench_.random({s_.sequence, s_.hidden / s_.heads}, DType::f32),
                               bench_.indices({s_.sequence}, static_cast<int>(s_.sequence))};
    };
    memory_bound("rotary " + type, passes(2, dtype), shape, rotated,
                 [&](auto& v) { k_.rotary(q_, v[0], s_.heads, v[1], v[2], false); });
  }

  void elementwise(DType dtype) {
    const std::string type = name_of(dtype), shape = shape_words(dtype);
    const auto views = [&](int count) { return [=, this] { return activations(count, dtype); }; };
    gelu_forward("gelu forward " + type, dtype, k_.gelu_forward);
    memory_bound("gelu backward " + type, passes(3, dtype), shape, views(3),
                 [&](auto& v) { k_.gelu_backward(q_, v[0], v[1], v[2]); });
    memory_bound("add " + type, passes(3, dtype), shape, views(3),
                 [&](auto& v) { k_.add(q_, v[0], v[1], v[2]); });
    memory_bound("scale " + type, passes(2, dtype), shape, views(1),
                 [&](auto& v) { k_.scale(q_, v[0], -1.0F); });
    memory_bound("fill " + type, passes(1, dtype), shape, views(1),
                 [&](auto& v) { k_.fill(q_, v[0], 0.5F); });
    memory_bound("copy kernel " + type, passes(2, dtype), shape, views(2),
                 [&](auto& v) { k_.copy(q_, v[0], v[1]); });
    if (dtype == DType::bf16)
      memory_bound(
          "convert bf16 to f32", passes(1, DType::bf16) + passes(1, DType::f32), shape,
          [&] {
            std::vector<View> both = activations(1, DType::bf16);
            both.push_back(bench_.random({s_.rows(), s_.hidden}, DType::f32));
            return both;
          },
          [&](auto& v) { k_.convert(q_, v[0], v[1]); });
  }

  void cross_entropy(DType dtype) {
    const std::int64_t rows = s_.rows() / 8;
    const std::int64_t logits = rows * s_.vocabulary * static_cast<std::int64_t>(size_of(dtype));
    const std::string type = name_of(dtype);
    const std::string shape = fmt::format("({}, {}) {}", rows, s_.vocabulary, type);
    const auto make = [&] {
      std::vector<View> v{bench_.random_aligned(rows, s_.vocabulary, dtype),
                          bench_.indices({rows}, static_cast<int>(s_.vocabulary)),
                          bench_.random({rows}, DType::f32), bench_.random({rows}, DType::f32),
                          bench_.random_aligned(rows, s_.vocabulary, dtype)};
      k_.cross_entropy_forward(q_, v[0], v[1], v[2], v[3]);
      return v;
    };
    cross_entropy_forward("cross entropy forward " + type, dtype, k_.cross_entropy_forward);
    memory_bound("cross entropy backward " + type, 2 * logits, shape, make,
                 [&](auto& v) { k_.cross_entropy_backward(q_, v[0], v[1], v[3], 1e-3F, v[4]); });
  }

  void embedding(DType dtype) {
    const std::string type = name_of(dtype), shape = shape_words(dtype);
    const auto make = [&] {
      return std::vector<View>{
          bench_.indices({s_.batch, s_.sequence}, static_cast<int>(s_.vocabulary)),
          bench_.random({s_.vocabulary, s_.hidden}, dtype),
          bench_.random({s_.sequence, s_.hidden}, dtype),
          bench_.random({s_.batch, s_.sequence, s_.hidden}, dtype)};
    };
    memory_bound("embedding forward " + type, passes(2, dtype), shape, make,
                 [&](auto& v) { k_.embedding_forward(q_, v[0], v[1], v[2], v[3]); });
    // The gradient is read once; the table rows to which it is added are read and written.
    memory_bound("embedding backward " + type, passes(3, dtype), shape, make,
                 [&](auto& v) { k_.embedding_backward(q_, v[0], v[3], v[1], v[2]); });
  }

  void reductions(DType dtype) {
    const std::string type = name_of(dtype), shape = shape_words(dtype);
    const auto views = [&] {  // x, and one double
      std::vector<View> made = activations(1, dtype);
      made.push_back(bench_.random({1, 2}, DType::f32));
      return made;
    };
    memory_bound("sums of squares " + type, passes(1, dtype), shape, views,
                 [&](auto& v) { k_.sums_of_squares(q_, {v[0]}, v[1]); });
    memory_bound("counts of not finite " + type, passes(1, dtype), shape, views,
                 [&](auto& v) { k_.counts_of_not_finite(q_, {v[0]}, v[1]); });
  }

  // 28 bytes per parameter: all four arrays are read, and all except the gradient are written.
  void adamw() {
    const auto make = [&] {
      std::vector<View> views;
      for (int i = 0; i < 3; ++i) views.push_back(bench_.random({s_.adamw}, DType::f32));
      views.push_back(bench_.random({s_.adamw}, DType::f32));
      k_.fill(q_, views.back(), 1.0F);  // the variance, which is never negative
      return views;
    };
    memory_bound("adamw f32", 28 * s_.adamw, fmt::format("{} parameters", s_.adamw), make,
                 [&](auto& v) {
                   k_.adamw(q_, {{v[0], v[1], v[2], v[3], {}}}, {.step = 10});
                 });
  }

  Bench& bench_;
  const Kernels& k_;
  Queue q_;
  Shapes s_;
  int samples_;
  double copy_rate_ = 0;  ///< bytes per second
};

}  // namespace lockstep
