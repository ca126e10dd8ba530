#pragma once

#include <fmt/format.h>
#include <algorithm>
#include <utility>
#include <vector>

#include "core/model/builder.h"
#include "core/model/ops.h"

namespace lockstep {

/// The parameters that replace those of a block's MLP.
enum class ExpertSlot {
  router = block_slots,
  fc_weight,
  fc_bias,
  projection_weight,
  projection_bias
};

inline ParameterSpec expert_spec(const GptConfig& config, int layer, ExpertSlot slot, int experts) {
  const std::int64_t h = config.hidden, n = experts;
  const auto like = [&](BlockSlot dense, const char* name, const Shape& shape) {
    ParameterSpec spec = block_spec(config, layer, dense);
    spec.name = fmt::format("transformer.h.{}.moe.{}", layer, name);
    spec.order = block_order(layer, static_cast<int>(slot));
    spec.shape = shape;
    return spec;
  };
  switch (slot) {
    case ExpertSlot::router:
      return like(BlockSlot::fc_weight, "router.weight", {h, n});
    case ExpertSlot::fc_weight:
      return like(BlockSlot::fc_weight, "experts.fc.weight", {n, h, 4 * h});
    case ExpertSlot::fc_bias:
      return like(BlockSlot::fc_bias, "experts.fc.bias", {n, 4 * h});
    case ExpertSlot::projection_weight:
      return like(BlockSlot::mlp_projection_weight, "experts.proj.weight", {n, 4 * h, h});
    case ExpertSlot::projection_bias:
      break;
  }
  return like(BlockSlot::mlp_projection_bias, "experts.proj.bias", {n, h});
}

/// Returns whether a parameter belongs to one expert, so that only the ranks with this expert have
/// it.
inline bool is_expert(int order) {
  return order % orders_of_a_unit > static_cast<int>(ExpertSlot::router) &&
         order % orders_of_a_unit <= static_cast<int>(ExpertSlot::projection_bias);
}

/// Replaces the parameters of the MLPs by those of experts, which the ranks of `axis` divide among
/// themselves. If it is ep, the ranks of tp divide each expert's columns and rows, as lesson 6
/// divides those of an MLP.
inline std::vector<ParameterSpec> with_experts(std::vector<ParameterSpec> specs,
                                               const GptConfig& config, int experts, Axis axis) {
  std::erase_if(specs, [&](const ParameterSpec& spec) {
    const int slot = spec.order % orders_of_a_unit;
    return spec.unit() >= 1 && spec.unit() <= config.layers &&
           slot >= static_cast<int>(BlockSlot::fc_weight);
  });
  for (int layer = 0; layer < config.layers; ++layer)
    for (const ExpertSlot slot : {ExpertSlot::router, ExpertSlot::fc_weight, ExpertSlot::fc_bias,
                                  ExpertSlot::projection_weight, ExpertSlot::projection_bias}) {
      ParameterSpec& spec = specs.emplace_back(expert_spec(config, layer, slot, experts));
      if (slot == ExpertSlot::router) continue;
      spec.cuts = {{.axis = axis, .dimension = 0}};
      if (axis == Axis::tp || slot == ExpertSlot::projection_bias) continue;
      const bool columns = slot == ExpertSlot::fc_weight;
      spec.cuts.push_back({.axis = Axis::tp, .dimension = columns ? 2 : 1});
    }
  std::ranges::sort(specs, {}, &ParameterSpec::order);
  return specs;
}

/// Returns the units with only those parameters that belong to experts, or only the others. Units
/// without such parameters are left out.
inline std::vector<StoredUnit> units_with(std::vector<StoredUnit> units, bool experts) {
  for (StoredUnit& unit : units)
    std::erase_if(unit.parameters, [&](const StoredParameter& parameter) {
      return is_expert(parameter.order) != experts;
    });
  std::erase_if(units, [](const StoredUnit& unit) { return unit.parameters.empty(); });
  return units;
}

/// Returns rows [first, first + count) of a matrix.
inline View rows_of(View matrix, std::int64_t first, std::int64_t count) {
  const std::int64_t width = matrix.shape.last();
  return matrix.reshaped({matrix.elements()})
      .columns(first * width, count * width)
      .reshaped({count, width});
}

/// Returns the i-th of the matrices, or vectors, of which `all` consists.
inline View item_of(View all, std::int64_t i) {
  const Shape& shape = all.shape;
  const Shape item = shape.rank() == 3 ? Shape{shape[1], shape[2]} : Shape{shape[1]};
  return all.reshaped({all.elements()})
      .columns(i * item.elements(), item.elements())
      .reshaped(item);
}

/// The experts of this rank. Each applies its own h -> 4h -> GELU -> h to its rows of one matrix,
/// in which the rows of expert 0 come first.
class Experts {
 public:
  struct Saved {
    std::vector<std::int64_t> counts;  ///< rows by expert
    Tensor x, inner, activated;        ///< (R, h), (R, 4h), (R, 4h)
    Tensor dinner, dy;                 ///< between the two halves of the backward pass
  };

  /// `adds_bias` is false if the results are terms of a sum over ranks and another rank adds the
  /// bias.
  Experts(const LayerSite& site, int experts, bool adds_bias = true)
      : ops_(site.device, site.layer, site.config.dtype),
        adds_bias_(adds_bias),
        fc_(parameter(site, ExpertSlot::fc_weight, experts)),
        fc_bias_(parameter(site, ExpertSlot::fc_bias, experts)),
        projection_(parameter(site, ExpertSlot::projection_weight, experts)),
        projection_bias_(parameter(site, ExpertSlot::projection_bias, experts)) {}

  Tensor forward(Tensor x, std::vector<std::int64_t> counts, Saved& saved) const {
    saved.counts = std::move(counts);
    saved.x = std::move(x);
    const std::int64_t rows = saved.x.shape()[0], h = saved.x.shape()[1];
    saved.inner = ops_.activation({rows, inner_width()}, "GELU input");
    saved.activated = ops_.activation({rows, inner_width()}, "GELU output");
    Tensor y = ops_.activation({rows, h}, "expert output");
    each(saved, [&](std::int64_t e, auto of_expert) {
      ops_.linear_forward(of_expert(saved.x), item_of(fc_.value, e), item_of(fc_bias_.value, e),
                          of_expert(saved.inner), WeightLayout::in_out);
    });
    if (rows > 0) ops_.gelu_forward(saved.inner, saved.activated);
    each(saved, [&](std::int64_t e, auto of_expert) {
      ops_.linear_forward(of_expert(saved.activated), item_of(projection_.value, e),
                          adds_bias_ ? item_of(projection_bias_.value, e) : View{}, of_expert(y),
                          WeightLayout::in_out);
    });
    return y;
  }

  Tensor backward_input(Tensor dy, Saved& saved) const {
    const std::int64_t rows = saved.x.shape()[0], h = saved.x.shape()[1];
    saved.dy = std::move(dy);
    saved.dinner = ops_.activation({rows, inner_width()}, activation_gradients);
    each(saved, [&](std::int64_t e, auto of_expert) {
      ops_.linear_backward_input(of_expert(saved.dy), item_of(projection_.value, e),
                                 of_expert(saved.dinner), WeightLayout::in_out);
    });
    if (rows > 0) ops_.gelu_backward(saved.inner, saved.dinner, saved.dinner);
    saved.inner.reset();
    Tensor dx = ops_.activation({rows, h}, activation_gradients);
    each(saved, [&](std::int64_t e, auto of_expert) {
      ops_.linear_backward_input(of_expert(saved.dinner), item_of(fc_.value, e), of_expert(dx),
                                 WeightLayout::in_out);
    });
    return dx;
  }

  void backward_weight(const Saved& saved) const {
    each(saved, [&](std::int64_t e, auto of_expert) {
      ops_.linear_backward_weight(of_expert(saved.activated), of_expert(saved.dy),
                                  item_of(projection_.gradient, e),
                                  item_of(projection_bias_.gradient, e), WeightLayout::in_out);
      ops_.linear_backward_weight(of_expert(saved.x), of_expert(saved.dinner),
                                  item_of(fc_.gradient, e), item_of(fc_bias_.gradient, e),
                                  WeightLayout::in_out);
    });
  }

  void collect(std::vector<Parameter*>& parameters) {
    parameters.insert(parameters.end(), {&fc_, &fc_bias_, &projection_, &projection_bias_});
  }

 private:
  std::int64_t inner_width() const { return fc_bias_.slice.local()[1]; }
  static Parameter parameter(const LayerSite& site, ExpertSlot slot, int experts) {
    return site.parameter(expert_spec(site.config, site.layer, slot, experts));
  }
  /// Calls run(e, of_expert) for each expert that has rows; of_expert selects its rows of a matrix.
  template <class Run>
  static void each(const Saved& saved, Run run) {
    std::int64_t first = 0;
    for (std::size_t e = 0; e < saved.counts.size(); ++e) {
      const std::int64_t count = saved.counts[e];
      if (count > 0)
        run(static_cast<std::int64_t>(e), [=](View all) { return rows_of(all, first, count); });
      first += count;
    }
  }

  Ops ops_;
  bool adds_bias_;
  Parameter fc_, fc_bias_, projection_, projection_bias_;
};

}  // namespace lockstep
