#include "core/run/rank/matrix_products.h"

#include <algorithm>
#include <vector>

#include "core/model/builder.h"
#include "core/plan/ranks_of_model.h"

namespace lockstep {

void load_matrix_products(Stream& compute, const Options& options) {
  const GptConfig& model = options.plan.model();
  const int tp = options.plan.mesh.size(Axis::tp), cp = options.plan.mesh.size(Axis::cp);
  const int most_microbatches = std::ranges::max(options.microbatches());
  const std::int64_t rows = std::max(1, options.plan.microbatch_size(most_microbatches)) *
                            static_cast<std::int64_t>(model.sequence) / cp;
  const std::int64_t h = model.hidden;
  const auto part = [tp](std::int64_t width) { return std::max<std::int64_t>(1, width / tp); };
  const WeightLayout blocks = weight_layout(model);
  const bool biases = !model.llama;
  struct Product {
    std::int64_t in, out;
    bool has_bias;
    WeightLayout layout;
    bool of_experts = false;
  };
  const Product products[] = {
      {h, part(model.qkv_width()), biases, blocks},
      {part(h), h, biases, blocks},  // projections; without a bias if it is cut
      {part(h), h, false, blocks},
      {h, part(model.mlp_inner_width()), biases, blocks, true},
      {part(model.mlp_width()), h, biases, blocks, true},
      {part(model.mlp_width()), h, false, blocks},
      {h, (model.vocabulary + tp - 1) / tp, false, WeightLayout::out_in},  // head
  };
  Gpu& gpu = *compute.gpu();
  const Queue queue = compute.queue();
  const Kernels& kernels = gpu.kernels();
  const auto run = [&](const Product& product, std::int64_t of_x) {
    const auto& [in, out, has_bias, layout, of_experts] = product;
    std::vector<void*> memory;
    const auto tensor = [&](Shape shape) {
      const View view{nullptr, shape, model.dtype};
      memory.push_back(gpu.allocate(view.bytes(), queue));
      return View{memory.back(), shape, model.dtype};
    };
    const View x = tensor({of_x, in}), y = tensor({of_x, out});
    const View w = tensor(layout == WeightLayout::in_out ? Shape{in, out} : Shape{out, in});
    const View bias = has_bias ? tensor({out}) : View{};
    kernels.linear_forward(queue, x, w, bias, y, layout);
    kernels.linear_backward_input(queue, y, w, x, layout);
    kernels.linear_backward_weight(queue, x, y, w, bias, layout);
    for (void* each : memory) gpu.release(each, queue);
  };
  for (const Product& product : products) run(product, rows);
  // The router decides how many rows an expert gets: up to all tokens of all ranks. cuBLASLt
  // chooses by size, so powers of two find nearly all of its kernels.
  if (divides_experts(options.plan))
    for (std::int64_t few = 1; few <= rows * options.plan.mesh.size(Axis::ep); few *= 2)
      for (const Product& product : products)
        if (product.of_experts) run(product, few);
  compute.synchronise();
}

}  // namespace lockstep
