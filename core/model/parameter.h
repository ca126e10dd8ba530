#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "core/device/device.h"
#include "core/plan/gpt_parameters.h"
#include "core/plan/slice.h"

namespace lockstep {

/// Where values and gradients are stored initially.
enum class Storage {
  own,   ///< in each parameter's own storage, with initial values
  none,  ///< not at all: a technique that shards the model provides storage later
};

/// One parameter of a model as a rank holds it: its spec, the rank's slice, and views of that
/// slice's value and gradient. A layer owns its Parameters and accesses value and gradient through
/// the Views at each use, so a lesson may move both into its own flat buffer (point the Views
/// there, reset the storage) or remove them between uses. `shape` is the shape of the whole tensor;
/// value and gradient have shape slice.local().
struct Parameter : ParameterSpec {
  Parameter() = default;
  /// Creates a parameter without storage: value and gradient stay empty until they are set to views
  /// of a buffer. An empty slice means the whole tensor.
  explicit Parameter(const ParameterSpec& spec, Slice slice = {});
  /// Allocates value and gradient (charged to parameters and gradients), fills the value with its
  /// initial values, which are the same for every split, and zeros the gradient. A frozen parameter
  /// has no gradient. Fills nothing on the meta device.
  Parameter(const ParameterSpec& spec, Slice slice, Device device, std::uint64_t seed);

  /// These functions allocate the parameter's own storage again, uninitialised, after its value or
  /// gradient has been moved elsewhere.
  void allocate_value(Device device);
  void allocate_gradient(Device device);

  /// Fills the value with this slice's initial values, and padding with zeros. For a given seed, an
  /// element's initial value depends only on its index in the whole tensor. Does nothing without
  /// storage.
  void fill_initial(Device device, std::uint64_t seed) const;

  /// Returns the parameter in f32, as checkpoints and comparisons need it, copied from `device`:
  /// the master if there is one, otherwise the widened value. Returns an empty vector if the
  /// parameter has no storage.
  std::vector<float> f32_values(Device device) const;

  Slice slice;  ///< this rank's part of the whole tensor
  View value;
  View gradient;
  /// The optimizer's f32 master copy of a 16-bit value; the value is the master, rounded (see
  /// AdamW). Empty without an optimizer, or if the value is f32.
  View master;

  Tensor value_storage;     ///< empty while `value` points into another buffer
  Tensor gradient_storage;  ///< empty while `gradient` points into another buffer
};

/// Fills a view with zeros during setup; the modelled clock is not charged. Does nothing on the
/// meta device.
void fill_with_zeros(Device device, View view);

}  // namespace lockstep
