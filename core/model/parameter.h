#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "core/device/device.h"
#include "core/plan/gpt_parameters.h"
#include "core/plan/slice.h"

namespace lockstep {

/// The initial storage of values and gradients.
enum class Storage {
  own,   ///< in storage of each parameter's own, with initial values
  none,  ///< nowhere: a technique that shards the model gives them a place before they are used
};

/// One parameter of a model as a rank holds it: its spec, which part of it is here, and where the
/// value and the gradient of that part lie. A layer owns its Parameters and reads them through the
/// Views at each use, so a lesson may move them into a flat buffer of its own (point the Views
/// there, reset the storage), or take them away between uses. `shape` is that of the whole tensor;
/// value and gradient have slice.local().
struct Parameter : ParameterSpec {
  Parameter() = default;
  /// Without storage: value and gradient are empty until somebody gives them a place. An empty
  /// slice is all of it.
  explicit Parameter(const ParameterSpec& spec, Slice slice = {});
  /// Allocates value and gradient (charged to parameters and gradients), fills the value with its
  /// initial numbers, the same on every split, and the gradient with zeros. A frozen parameter has
  /// no gradient. On the meta device nothing is filled.
  Parameter(const ParameterSpec& spec, Slice slice, Device device, std::uint64_t seed);

  /// Gives the parameter storage of its own again, after its value or gradient has been elsewhere:
  /// allocated, not filled.
  void allocate_value(Device device);
  void allocate_gradient(Device device);

  /// Fills the value with the initial numbers of this slice: those of its elements of the whole
  /// tensor, wherever they are made; zero in padding. Nothing without storage.
  void fill_initial(Device device, std::uint64_t seed) const;

  /// The parameter in f32, as checkpoints and comparisons take it, from `device`, where it lies:
  /// the master if there is one, otherwise the value, widened. Empty without storage.
  std::vector<float> f32_values(Device device) const;

  Slice slice;  ///< which part of the whole tensor this is
  View value;
  View gradient;
  /// Of a narrow value: the optimizer's f32 copy, which the value is rounded from (AdamW). Empty
  /// without an optimizer, and if the value is f32 itself.
  View master;

  Tensor value_storage;     ///< empty while `value` lies in somebody else's buffer
  Tensor gradient_storage;  ///< likewise
};

/// Zeros, outside of the modelled clock: for setting up. Nothing on the meta device.
void fill_with_zeros(Device device, View view);

}  // namespace lockstep
