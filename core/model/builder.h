#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <vector>

#include "core/model/layer.h"
#include "core/plan/plan.h"

namespace lockstep {

/// Where a layer is built, and with what. It lives as long as the building takes.
struct LayerSite {
  GptConfig config;
  Device device;
  std::uint64_t seed = 0;
  int layer = -1;  ///< the block's number; -1 outside of the blocks
  Storage storage = Storage::own;
  /// What the rank holds of each parameter, by its order; null for all of every one.
  const std::map<int, Slice>* slices = nullptr;

  /// The part of a parameter that belongs here.
  Parameter parameter(const ParameterSpec& spec) const {
    Slice slice = slices != nullptr ? slices->at(spec.order) : Slice{spec.shape};
    return storage == Storage::own ? Parameter{spec, std::move(slice), device, seed}
                                   : Parameter{spec, std::move(slice)};
  }
};

/// How tensor parallelism would split a Linear (Shoeybi 2019): its outputs, or its inputs.
enum class LinearSplit { column, row };

/// What a Linear is to be.
struct LinearSpec {
  ParameterSpec weight;
  ParameterSpec bias;  ///< an empty shape for none
  int in = 0;
  int out = 0;
  WeightLayout layout = WeightLayout::in_out;
  LinearSplit split = LinearSplit::column;
  /// A tied head: reads this parameter's value and adds to `tied_gradient` instead of owning
  /// either.
  Parameter* tied = nullptr;
  View tied_gradient{};
};

/// Makes a model. A lesson that changes the model derives from this, overrides what the lesson is
/// about, and gives the result to its Plan: the run, the reference on one device, predictions,
/// sampling and the meta device all build with it.
class ModelBuilder {
 public:
  virtual ~ModelBuilder() = default;
  /// All parameters of the whole model in ascending order, with their cuts: what its layers ask
  /// LayerSite::parameter for.
  virtual std::vector<ParameterSpec> parameters(const GptConfig& config) const;
  virtual std::unique_ptr<TokenLayer> embedding(const LayerSite& site) const;
  virtual std::unique_ptr<Layer> linear(const LayerSite& site, const LinearSpec& spec) const;
  virtual std::unique_ptr<Layer> layernorm(const LayerSite& site, const ParameterSpec& gain,
                                           const ParameterSpec& bias) const;
  /// (b, s, h) from queries, keys and values (b, s, 3h).
  virtual std::unique_ptr<Layer> attention_core(const LayerSite& site) const;
  virtual std::unique_ptr<Layer> mlp(const LayerSite& site) const;
  /// A whole block, (b, s, h) -> (b, s, h), of the layers above.
  virtual std::unique_ptr<Layer> block(const LayerSite& site) const;
  virtual std::unique_ptr<LossLayer> loss(const LayerSite& site) const;
};

/// The plan's model is to be of `config`, built by `builder`; null is GPT-2's own.
void set_model(Plan& plan, const GptConfig& config, std::shared_ptr<const ModelBuilder> builder);
/// The plan's builder, or GPT-2's own.
const ModelBuilder& builder_of(const Plan& plan);

}  // namespace lockstep
