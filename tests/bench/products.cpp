#include "tests/bench/products.h"

#include <algorithm>

namespace lockstep::bench {

double product_flops(const GptConfig& config, int batch) {
  const double rows = static_cast<double>(batch) * config.sequence;
  const double h = config.hidden, s = config.sequence;
  const double linear = 3 * 2 * rows * h * (12 * h * config.layers + config.vocabulary);
  const double attention = 6 * 2 * rows * s * h * config.layers / 2;
  return linear + attention;
}

LinearProducts::LinearProducts(const GptConfig& config, int batch)
    : rows_(static_cast<std::int64_t>(batch) * config.sequence), dtype_(config.dtype) {
  const std::int64_t h = config.hidden;
  for (int layer = 0; layer < config.layers; ++layer)
    for (const auto& [in, out] : {std::pair{h, 3 * h}, {h, h}, {h, 4 * h}, {4 * h, h}})
      layers_.push_back({in, out, WeightLayout::in_out});
  layers_.push_back({h, config.vocabulary, WeightLayout::out_in});
  std::int64_t widest = 0, largest = 0;
  for (const Layer& layer : layers_) {
    flops_ += 3 * 2.0 * static_cast<double>(rows_ * layer.in * layer.out);
    widest = std::max({widest, layer.in, layer.out});
    largest = std::max(largest, layer.in * layer.out);
  }
  const auto bytes = [&](std::int64_t n) { return static_cast<std::size_t>(n) * size_of(dtype_); };
  x_.resize(bytes(rows_ * widest));
  y_.resize(bytes(rows_ * widest));
  w_.resize(bytes(largest));
}

View LinearProducts::view(std::vector<std::byte>& memory, Shape shape) const {
  return {memory.data(), shape, dtype_};
}

void LinearProducts::multiply() {
  const Kernels& kernels = cpu_kernels();
  for (const Layer& layer : layers_) {
    const View x = view(x_, {rows_, layer.in});
    const View y = view(y_, {rows_, layer.out});
    const View w = view(w_, layer.layout == WeightLayout::in_out ? Shape{layer.in, layer.out}
                                                                 : Shape{layer.out, layer.in});
    kernels.linear_forward({}, x, w, {}, y, layer.layout);
    kernels.linear_backward_input({}, y, w, x, layer.layout);
    kernels.linear_backward_weight({}, x, y, w, {}, layer.layout);
  }
}

}  // namespace lockstep::bench
