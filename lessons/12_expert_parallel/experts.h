#pragma once

#include <fmt/format.h>

#include <algorithm>
#include <utility>
#include <vector>

#include "core/model/builder.h"
#include "core/model/ops.h"
#include "lessons/06_tensor_parallel/tensor_parallel.h"

namespace lockstep {

/// The parameters that replace those of a block's MLP.
enum class ExpertSlot {
  router = block_slots,
  fc_weight,
  fc_bias,
  projection_weight,
  projection_bias
};

/// Returns the MLP's parameter that the slot holds E times, one after another, for E experts.
inline BlockSlot dense_slot(ExpertSlot slot) {
  switch (slot) {
    case ExpertSlot::fc_bias:
      return BlockSlot::fc_bias;
    case ExpertSlot::projection_weight:
      return BlockSlot::mlp_projection_weight;
    case ExpertSlot::projection_bias:
      return BlockSlot::mlp_projection_bias;
    default:
      return BlockSlot::fc_weight;
  }
}

/// Returns a parameter of the experts, which are MLPs of the model's family: in a Llama, with
/// SwiGLU and without biases, whose specs have an empty shape.
inline ParameterSpec expert_spec(const GptConfig& config, int layer, ExpertSlot slot, int experts) {
  constexpr const char* names[] = {"router.weight", "experts.fc.weight", "experts.fc.bias",
                                   "experts.proj.weight", "experts.proj.bias"};
  ParameterSpec spec = block_spec(config, layer, dense_slot(slot));
  if (spec.shape.rank() == 0) return spec;
  spec.name = fmt::format("{}.{}.moe.{}", config.llama ? "model.layers" : "transformer.h", layer,
                          names[static_cast<int>(slot) - static_cast<int>(ExpertSlot::router)]);
  spec.order = block_order(layer, static_cast<int>(slot));
  spec.stacked.clear();
  const std::int64_t n = experts, first = spec.shape[0];
  spec.shape = slot == ExpertSlot::router ? Shape{config.hidden, n}
               : spec.shape.rank() == 2   ? Shape{n, first, spec.shape[1]}
                                          : Shape{n, first};
  return spec;
}

/// Returns whether a parameter belongs to one expert, so that only the ranks with this expert hold
/// it.
inline bool is_expert(int order) {
  return order % orders_of_a_unit > static_cast<int>(ExpertSlot::router) &&
         order % orders_of_a_unit <= static_cast<int>(ExpertSlot::projection_bias);
}

/// Replaces the parameters of the MLPs by those of experts, which the ranks of `axis` divide among
/// themselves. If `axis` is ep, the ranks of tp divide each expert's columns and rows, as lesson 6
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
      ParameterSpec spec = expert_spec(config, layer, slot, experts);
      if (spec.shape.rank() == 0) continue;
      if (slot != ExpertSlot::router) spec.cuts = {{.axis = axis, .dimension = 0}};
      if (slot != ExpertSlot::router && axis != Axis::tp)
        for (Cut cut : tensor_cuts(config, block_spec(config, layer, dense_slot(slot)))) {
          ++cut.dimension;  // the first one is the experts'
          spec.cuts.push_back(cut);
        }
      specs.push_back(std::move(spec));
    }
  std::ranges::sort(specs, {}, &ParameterSpec::order);
  return specs;
}

/// Returns the units with only the parameters of experts, or with only the other parameters. Units
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

/// Returns the i-th of the matrices or vectors that make up `all`; an empty view if `all` is empty.
inline View item_of(View all, std::int64_t i) {
  if (all.shape.rank() == 0) return {};
  const Shape& shape = all.shape;
  const Shape item = shape.rank() == 3 ? Shape{shape[1], shape[2]} : Shape{shape[1]};
  return all.reshaped({all.elements()})
      .columns(i * item.elements(), item.elements())
      .reshaped(item);
}

/// The experts of this rank. Each applies its own MLP to its rows of one matrix, in which the rows
/// of expert 0 come first.
class Experts {
 public:
  struct Saved {
    std::vector<std::int64_t> counts;  ///< rows by expert
    Tensor x, inner, activated;        ///< (R, h), (R, 4h or 2f), (R, 4h or f)
    Tensor dinner, dy;                 ///< between the two halves of the backward pass
  };

  /// `adds_bias` is false if the results are terms of a sum over ranks and another rank adds the
  /// bias.
  Experts(const LayerSite& site, int experts, bool adds_bias = true)
      : ops_(site.device, site.layer, site.config.dtype),
        adds_bias_(adds_bias),
        swiglu_(site.config.llama.has_value()),
        layout_(weight_layout(site.config)),
        fc_(parameter(site, ExpertSlot::fc_weight, experts)),
        fc_bias_(parameter(site, ExpertSlot::fc_bias, experts)),
        projection_(parameter(site, ExpertSlot::projection_weight, experts)),
        projection_bias_(parameter(site, ExpertSlot::projection_bias, experts)) {}

  Tensor forward(Tensor x, std::vector<std::int64_t> counts, Saved& saved) const {
    saved.counts = std::move(counts);
    saved.x = std::move(x);
    const std::int64_t rows = saved.x.shape()[0], h = saved.x.shape()[1];
    const std::int64_t width = inner_width();
    saved.inner = ops_.activation({rows, width}, swiglu_ ? "SwiGLU input" : "GELU input");
    saved.activated = ops_.activation({rows, swiglu_ ? width / 2 : width},
                                      swiglu_ ? "SwiGLU output" : "GELU output");
    Tensor y = ops_.activation({rows, h}, "expert output");
    each(saved, [&](std::int64_t e, auto of_expert) {
      ops_.linear_forward(of_expert(saved.x), item_of(fc_.value, e), item_of(fc_bias_.value, e),
                          of_expert(saved.inner), layout_);
    });
    if (rows > 0)
      swiglu_ ? ops_.swiglu_forward(saved.inner, saved.activated)
              : ops_.gelu_forward(saved.inner, saved.activated);
    each(saved, [&](std::int64_t e, auto of_expert) {
      ops_.linear_forward(of_expert(saved.activated), item_of(projection_.value, e),
                          adds_bias_ ? item_of(projection_bias_.value, e) : View{}, of_expert(y),
                          layout_);
    });
    return y;
  }

  Tensor backward_input(Tensor dy, Saved& saved) const {
    const std::int64_t rows = saved.x.shape()[0], h = saved.x.shape()[1];
    saved.dy = std::move(dy);
    saved.dinner = ops_.activation(saved.activated.shape(), activation_gradients);
    each(saved, [&](std::int64_t e, auto of_expert) {
      ops_.linear_backward_input(of_expert(saved.dy), item_of(projection_.value, e),
                                 of_expert(saved.dinner), layout_);
    });
    if (swiglu_) {  // the gradient, twice as wide as that of the output, overwrites the input
      if (rows > 0) ops_.swiglu_backward(saved.inner, saved.dinner, saved.inner);
      saved.dinner = std::move(saved.inner);
      saved.dinner.call(activation_gradients);
    } else if (rows > 0) {
      ops_.gelu_backward(saved.inner, saved.dinner, saved.dinner);
    }
    saved.inner.reset();
    Tensor dx = ops_.activation({rows, h}, activation_gradients);
    each(saved, [&](std::int64_t e, auto of_expert) {
      ops_.linear_backward_input(of_expert(saved.dinner), item_of(fc_.value, e), of_expert(dx),
                                 layout_);
    });
    return dx;
  }

  void backward_weight(const Saved& saved) const {
    each(saved, [&](std::int64_t e, auto of_expert) {
      ops_.linear_backward_weight(of_expert(saved.activated), of_expert(saved.dy),
                                  item_of(projection_.gradient, e),
                                  item_of(projection_bias_.gradient, e), layout_);
      ops_.linear_backward_weight(of_expert(saved.x), of_expert(saved.dinner),
                                  item_of(fc_.gradient, e), item_of(fc_bias_.gradient, e), layout_);
    });
  }

  void collect(std::vector<Parameter*>& parameters) {
    for (Parameter* parameter : {&fc_, &fc_bias_, &projection_, &projection_bias_})
      if (parameter->shape.rank() > 0) parameters.push_back(parameter);
  }

 private:
  std::int64_t inner_width() const {
    return fc_.slice.local()[layout_ == WeightLayout::in_out ? 2 : 1];
  }
  static Parameter parameter(const LayerSite& site, ExpertSlot slot, int experts) {
    const ParameterSpec spec = expert_spec(site.config, site.layer, slot, experts);
    return spec.shape.rank() > 0 ? site.parameter(spec) : Parameter{};
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
  bool adds_bias_, swiglu_;
  WeightLayout layout_;
  Parameter fc_, fc_bias_, projection_, projection_bias_;
};

}  // namespace lockstep
