#pragma once

#include <cstdint>
#include <string>

#include "core/device/device.h"
#include "core/model/gpt_parameters.h"

namespace lockstep {

/// One parameter of a model: where its value and its gradient lie, and what it is. A layer owns its
/// Parameters and reads them through the Views at each use, so a lesson may move them into a flat
/// buffer of its own (point the Views there, reset the storage), or take them away between uses.
struct Parameter {
  Parameter() = default;
  /// Allocates value and gradient (charged to parameters and gradients), fills the value with its
  /// initial numbers, the same on every split, and the gradient with zeros. On the meta device
  /// nothing is filled.
  Parameter(const ParameterSpec& spec, Device device, std::uint64_t seed);
  /// The same without initial values: of a shard, which its layer fills.
  Parameter(const ParameterSpec& spec, Device device);

  std::string name;  ///< Hugging Face's for GPT-2: "transformer.h.0.attn.c_attn.weight"
  Shape shape;
  View value;
  View gradient;
  bool decay = false;   ///< whether AdamW's weight decay applies
  bool frozen = false;  ///< keeps its initial values: has no gradient and no optimizer state
  int order = 0;       ///< in the whole model, the same on every split; see ParameterSpec

  Tensor value_storage;     ///< empty where `value` lies in a buffer of somebody else
  Tensor gradient_storage;  ///< likewise
};

/// Zeros, outside of the modelled clock: for setting up. Nothing on the meta device.
void fill_with_zeros(Device device, View view);

}  // namespace lockstep
