#pragma once

#include <cstdint>
#include <memory>

#include "core/model/layer.h"

namespace lockstep {

/// Where a layer is built, and with what.
struct LayerSite {
  GptConfig config;
  Device device;
  std::uint64_t seed = 0;
  int layer = -1;  ///< the block's number; -1 outside of the blocks
  Storage storage = Storage::own;

  /// A parameter of this place.
  Parameter parameter(const ParameterSpec& spec) const {
    return storage == Storage::own ? Parameter{spec, device, seed} : Parameter{spec};
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

/// Makes the layers that lessons replace: derive, and override the one the lesson is about.
class LayerFactory {
 public:
  virtual ~LayerFactory() = default;
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

}  // namespace lockstep
