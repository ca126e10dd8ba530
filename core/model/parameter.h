#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "core/device/device.h"
#include "core/model/gpt_parameters.h"

namespace lockstep {

/// Where a model's values and gradients lie at first.
enum class Storage {
  own,   ///< in storage of each parameter's own, with initial values
  none,  ///< nowhere: whoever shards the model gives them a place before they are used
};

/// One parameter of a model: where its value and its gradient lie, and what it is. A layer owns its
/// Parameters and reads them through the Views at each use, so a lesson may move them into a flat
/// buffer of its own (point the Views there, reset the storage), or take them away between uses.
struct Parameter {
  Parameter() = default;
  /// Without storage: value and gradient are empty until somebody gives them a place.
  explicit Parameter(const ParameterSpec& spec);
  /// Allocates value and gradient (charged to parameters and gradients), fills the value with its
  /// initial numbers, the same on every split, and the gradient with zeros. What is frozen has no
  /// gradient. On the meta device nothing is filled.
  Parameter(const ParameterSpec& spec, Device device, std::uint64_t seed);
  /// The same without initial values: of a shard, which its layer fills.
  Parameter(const ParameterSpec& spec, Device device);

  /// The initial values of elements [first, first + into.elements()) of this parameter: the same
  /// numbers wherever they are made. Nothing where there is no storage.
  void initial_values(Device device, View into, std::int64_t first, std::uint64_t seed) const;

  /// What the parameter, which lies on `device`, is in f32, as checkpoints and comparisons take it:
  /// the master where there is one, otherwise the value, widened. Empty where there is no storage.
  std::vector<float> f32_values(Device device) const;

  std::string name;  ///< Hugging Face's for GPT-2: "transformer.h.0.attn.c_attn.weight"
  Shape shape;
  View value;
  View gradient;
  /// Of a narrow value: the optimizer's f32 copy, which the value is rounded from (AdamW). Empty
  /// where there is no optimizer, or the value is f32 itself.
  View master;
  DType dtype = DType::f32;  ///< of value and gradient
  bool decay = false;        ///< whether AdamW's weight decay applies
  bool frozen = false;       ///< keeps its initial values: has no gradient and no optimizer state
  int order = 0;             ///< in the whole model, the same on every split; see ParameterSpec
  /// Of a part of a parameter, as a rank of ZeRO owns it: how many of the whole parameter's
  /// elements come before it. A part's shape is (elements).
  std::int64_t first = 0;
  float mean = 0, deviation = 0;  ///< of the initial values

  Tensor value_storage;     ///< empty where `value` lies in a buffer of somebody else
  Tensor gradient_storage;  ///< likewise
};

/// Zeros, outside of the modelled clock: for setting up. Nothing on the meta device.
void fill_with_zeros(Device device, View view);

}  // namespace lockstep
