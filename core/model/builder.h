#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <type_traits>
#include <vector>

#include "core/comm/axis_groups.h"
#include "core/model/layer.h"
#include "core/plan/plan.h"

namespace lockstep {

class Norm;
class RotaryTable;

/// The configuration, device and storage with which a layer is built. Needed only during
/// construction.
struct LayerSite {
  GptConfig config;
  Device device;
  std::uint64_t seed = 0;
  int layer = -1;  ///< block index; -1 outside the blocks
  Storage storage = Storage::own;
  /// The slice of each parameter that the rank holds, by parameter order; null if the rank holds
  /// all parameters in full.
  const std::map<int, Slice>* slices = nullptr;
  /// The groups of the rank on which the layer runs; null on one device. A layer that communicates
  /// keeps its Group, which must outlive the layer.
  AxisGroups* groups = nullptr;
  /// How the ranks of the cp axis divide the positions of each sequence (context_positions).
  ContextLayout context = ContextLayout::contiguous;
  /// The angles of a Llama's positions; null in a GPT-2.
  std::shared_ptr<const RotaryTable> rotary{};

  /// Returns this rank's group along `axis`, or null if the axis has only one rank.
  Group* group(Axis axis) const {
    return groups != nullptr && groups->size(axis) > 1 ? &(*groups)[axis] : nullptr;
  }

  /// Creates the parameter, or the rank's slice of it.
  Parameter parameter(const ParameterSpec& spec) const {
    Slice slice = slices != nullptr ? slices->at(spec.order) : Slice{spec.shape};
    return storage == Storage::own ? Parameter{spec, std::move(slice), device, seed}
                                   : Parameter{spec, std::move(slice)};
  }
};

/// The dimension along which tensor parallelism would split a Linear (Shoeybi 2019): its outputs
/// (column) or its inputs (row).
enum class LinearSplit { column, row };

/// The attention heads on a rank. Grouped-query attention (Ainslie 2023): `queries / keys` heads of
/// queries share one head of keys and values. In GPT-2, there are as many of both.
struct Heads {
  int queries = 1;
  int keys = 1;  ///< and as many of values
};

/// Returns the layout of the weights of a block's Linears, which is that of Hugging Face's files.
inline WeightLayout weight_layout(const GptConfig& config) {
  return config.llama ? WeightLayout::out_in : WeightLayout::in_out;
}

/// The description of a Linear.
struct LinearSpec {
  ParameterSpec weight;
  ParameterSpec bias;  ///< empty shape: no bias
  int in = 0;
  int out = 0;
  WeightLayout layout = WeightLayout::in_out;
  /// Whether the output's rows begin at aligned addresses on a GPU (Tensor::with_aligned_rows).
  bool aligned = false;
  LinearSplit split = LinearSplit::column;
  /// The kind of the output, for memory reports (MemoryParts).
  const char* output = nullptr;
  /// Whether the forward pass adds the bias. False if this layer's output is one term of a sum over
  /// ranks, and another rank adds the bias. The layer computes the bias's gradient in any case.
  bool adds_bias = true;
  /// Set for a tied head: the Linear reads this parameter's value, adds the gradient to
  /// `tied_gradient`, and owns neither.
  Parameter* tied = nullptr;
  View tied_gradient{};
};

/// Builds the layers of a model, a GPT-2 or a Llama. A lesson that changes the model derives from
/// this class, overrides the functions that build the changed layers, and passes the builder to its
/// Plan. The run, the single-device reference, predictions, sampling and the meta device then all
/// use this builder.
class ModelBuilder {
 public:
  virtual ~ModelBuilder() = default;
  /// Returns the specs of all parameters of the whole model, with their cuts, in ascending order.
  /// The layers pass these specs to LayerSite::parameter.
  virtual std::vector<ParameterSpec> parameters(const GptConfig& config) const;
  virtual std::unique_ptr<TokenLayer> embedding(const LayerSite& site) const;
  virtual std::unique_ptr<Layer> linear(const LayerSite& site, const LinearSpec& spec) const;
  /// LayerNorm, or RMSNorm if `bias` has an empty shape.
  virtual std::unique_ptr<Norm> norm(const LayerSite& site, const ParameterSpec& gain,
                                     const ParameterSpec& bias) const;
  /// Returns the positions of each sequence whose tokens are on this rank; empty means all.
  virtual std::vector<Positions> positions(const LayerSite&) const { return {}; }
  virtual Heads heads(const LayerSite& site) const {
    return {site.config.heads, site.config.kv_heads()};
  }
  /// Maps the rank's queries, keys and values side by side, (b, s, w + 2 w'), to (b, s, w). In a
  /// Llama, they already have rotary positions.
  virtual std::unique_ptr<Layer> attention_core(const LayerSite& site) const;
  virtual std::unique_ptr<Layer> mlp(const LayerSite& site) const;
  /// Builds a whole block, (b, s, h) -> (b, s, h), from the layers above.
  virtual std::unique_ptr<Layer> block(const LayerSite& site) const;
  virtual std::unique_ptr<LossLayer> loss(const LayerSite& site) const;
};

/// Sets the plan's model to `config`, built by the plan's builder.
void set_model(Plan& plan, const GptConfig& config);
/// Changes one setting of the plan's model: set_model(plan, &GptConfig::tied, true).
template <class T>
void set_model(Plan& plan, T GptConfig::*setting, const std::type_identity_t<T>& value) {
  GptConfig config = plan.model();
  config.*setting = value;
  set_model(plan, config);
}
/// Sets the builder of the plan's model; null selects the default builder.
void set_builder(Plan& plan, std::shared_ptr<const ModelBuilder> builder);
/// Returns the plan's builder, or the default builder if the plan has none.
const ModelBuilder& builder_of(const Plan& plan);

}  // namespace lockstep
